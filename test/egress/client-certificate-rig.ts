import { mkdtempSync, rmSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer, type ServerOptions } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TLSSocket } from 'node:tls'
import { onTestFinished } from 'vitest'
import type { EgressDestination, EgressGeneration, EgressReport } from '../../contracts/egress.ts'
import { CredentialValues, type CredentialValuesOptions } from '../../runtime/egress/credentials/values.ts'
import { EgressProxy } from '../../runtime/egress/proxy.ts'
import { createTestAuthority } from '../fakes/test-authority.ts'
import {
  authority,
  egressAuthority,
  egressRoot,
  HOST,
  listening,
  OTHER,
  portOf,
  received,
  tlsThrough,
} from './proxy-rig.ts'

/** The authority whose client certificates the servers of the tests accept. */
export const clients = createTestAuthority()
export const builder = clients.clientFor('builder')

interface Sent {
  readonly host?: string
  readonly runId?: string
  /** Lines. */
  readonly headers?: string
  readonly method?: string
  readonly body?: string
}

type Answer = (request: IncomingMessage, response: ServerResponse) => void

const subjectOf = (socket: TLSSocket): string => {
  const { subject } = socket.getPeerCertificate()
  return subject ? String(subject.CN) : 'none'
}

/** A server that demands a client certificate of `clients`, and answers with the name in it. */
export async function demandingServer(
  options: ServerOptions = {},
  answer: Answer = (request, response) => response.end(`hello ${subjectOf(request.socket as TLSSocket)}`),
) {
  /** Connections, of which not each has a request. */
  const seen = { connections: 0, subjects: [] as string[], resumed: 0, requests: 0 }
  const server = createServer(
    {
      ...{ ...authority.serverFor(HOST, OTHER), ca: clients.certificate },
      ...{ requestCert: true, rejectUnauthorized: true, ...options },
    },
    (request, response) => {
      seen.requests += 1
      answer(request, response)
    },
  )
  server.on('connection', () => {
    seen.connections += 1
  })
  server.on('secureConnection', (socket) => {
    seen.subjects.push(subjectOf(socket))
    if (socket.isSessionReused()) seen.resumed += 1
  })
  server.on('tlsClientError', () => undefined)
  return { port: portOf(await listening(server)), seen }
}

/** The two proxies of a laptop, in one process, whose sandboxes may reach a server at `HOST` and `OTHER`. */
export async function certificateRig(
  port: number,
  {
    fetch = async () => builder.pem,
    entry,
  }: {
    readonly fetch?: CredentialValuesOptions['fetch']
    readonly entry?: Partial<EgressDestination>
  } = {},
) {
  const folder = mkdtempSync(join(tmpdir(), 'aw-client-certificates-'))
  const reports: EgressReport[] = []
  const common = { report: (one: EgressReport) => void reports.push(one), roots: [authority.certificate] }
  const front = new EgressProxy(common)
  const broker = new EgressProxy({ ...common, credentials: new CredentialValues({ fetch }) })
  onTestFinished(() => {
    front.close()
    broker.close()
    rmSync(folder, { recursive: true, force: true })
  })
  const base = {
    ports: [port],
    methods: 'any',
    phases: ['work'],
    caller: 'any',
    addresses: ['127.0.0.1'],
    requests: [{ methods: ['GET', 'POST'], paths: ['/**'] }],
  } as const satisfies Partial<EgressDestination>
  const { digest } = egressAuthority
  const certified = { credential: 'corp', credentialKind: 'client-certificate' } as const
  const destinations = {
    certified: { ...base, host: HOST, ...certified, ...entry },
    plain: { ...base, host: OTHER, authority: digest },
  } as unknown as Record<string, EgressDestination>
  const { certified: toHost, plain } = destinations as {
    certified: EgressDestination
    plain: EgressDestination
  }
  const generationOf = (runId: string): EgressGeneration => ({
    ...{ runId, generation: 1, phase: 'work', placeholders: [] },
    ...{ socketPath: join(folder, runId), brokerPath: join(folder, `${runId}-broker`) },
    destinations: [toHost, plain],
  })
  let revision = 0
  const apply = async (...runIds: string[]) => {
    revision += 1
    const generations = runIds.map(generationOf)
    const ofBroker = generations.map(({ brokerPath = '', ...one }) => ({
      ...{ ...one, socketPath: brokerPath },
      destinations: [{ ...toHost, authority: digest }],
    }))
    await broker.apply({ revision, generations: ofBroker, authorities: [egressAuthority] })
    await front.apply({ revision, generations, authorities: [egressAuthority] })
  }
  await apply('run', 'second')
  /** Sends a request as a command, and returns the answer. */
  const send = async (
    path = '/a',
    { host = HOST, runId = 'run', headers = '', method = 'GET', body = '' }: Sent = {},
  ) => {
    const socket = await tlsThrough(join(folder, runId), `${host}:${port}`, {
      servername: host,
      ca: egressRoot.certificate,
      ALPNProtocols: ['http/1.1'],
    })
    const { closed } = received(socket)
    const head = `${method} ${path} HTTP/1.1\r\nHost: ${host}:${port}\r\n${headers}Connection: close\r\n`
    socket.write(`${head}\r\n${body}`, 'latin1')
    return (await closed).toString('latin1')
  }
  const denied = () => reports.flatMap((one) => (one.type === 'denied' ? [one.data] : []))
  const used = () => reports.flatMap((one) => (one.type === 'credential-used' ? [one.data] : []))
  return { send, apply, broker, reports, denied, used, socketPath: join(folder, 'run') }
}
