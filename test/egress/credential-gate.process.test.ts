import { mkdtempSync, rmSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { EgressDestination, EgressGeneration, EgressReport } from '../../contracts/egress.ts'
import { CredentialValues } from '../../runtime/egress/credentials/values.ts'
import { EGRESS_LIMITS, type EgressLimits } from '../../runtime/egress/limits.ts'
import { EgressProxy } from '../../runtime/egress/proxy.ts'
import {
  authority,
  egressAuthority,
  egressRoot,
  exchange,
  HOST,
  listening,
  portOf,
  received,
  tlsThrough,
} from './proxy-rig.ts'

const VALUE = 'ghp_realValueOfTheCredential000000000001'
const PLACEHOLDER = 'ghp_placeholderOfTheCredential0000000002'
type Answer = (request: IncomingMessage, response: ServerResponse) => void

interface RigOptions {
  readonly hasBroker?: boolean
  readonly isBrokerRunning?: boolean
  /** Limits of the first process. */
  readonly limits?: Partial<EgressLimits>
  readonly state?: Pick<EgressGeneration, 'restriction' | 'bytesLeft'>
  readonly entry?: Pick<EgressDestination, 'maxSent'>
}

/** The two proxies of a laptop, in one process, and a host with a credential. */
async function rig(
  answer: Answer,
  { hasBroker = true, isBrokerRunning = true, limits, state, entry }: RigOptions = {},
) {
  const folder = mkdtempSync(join(tmpdir(), 'aw-gate-'))
  const authorizations: string[] = []
  const server = await listening(
    createServer(authority.serverFor(HOST), (request, response) => {
      authorizations.push(String(request.headers.authorization))
      answer(request, response)
    }),
  )
  // It must not be the server that ends a connection.
  Object.assign(server, { headersTimeout: 0, requestTimeout: 0 })
  const port = portOf(server)
  const reports: EgressReport[] = []
  const fetched: string[] = []
  const common = { report: (one: EgressReport) => void reports.push(one), roots: [authority.certificate] }
  const ofFront: EgressReport[] = []
  const front = new EgressProxy({
    ...common,
    report: (one) => void [reports, ofFront].map((list) => list.push(one)),
    limits: { ...EGRESS_LIMITS, ...limits },
  })
  const credentials = new CredentialValues({
    fetch: async ({ runId, credential }) => {
      fetched.push(`${runId} ${credential}`)
      return VALUE
    },
  })
  const broker = new EgressProxy({ ...common, credentials })
  onTestFinished(() => {
    front.close()
    broker.close()
    rmSync(folder, { recursive: true, force: true })
  })
  const socketPath = join(folder, 'socket')
  const brokerPath = join(folder, 'broker')
  const destination = {
    host: HOST,
    ports: [port],
    methods: 'any' as const,
    phases: ['work' as const],
    caller: 'any' as const,
    addresses: ['127.0.0.1'],
    requests: [{ methods: ['GET', 'POST'], paths: ['/a/**'] }],
    credential: 'token',
    ...entry,
  }
  const generation: EgressGeneration = {
    runId: 'run',
    generation: 1,
    phase: 'work',
    socketPath,
    destinations: [destination],
    ...state,
    ...(hasBroker && { brokerPath }),
  }
  const ofBroker: EgressGeneration = {
    ...generation,
    socketPath: brokerPath,
    destinations: [{ ...destination, authority: egressAuthority.digest }],
    placeholders: [{ credential: 'token', value: PLACEHOLDER }],
  }
  if (isBrokerRunning)
    await broker.apply({ revision: 1, generations: [ofBroker], authorities: [egressAuthority] })
  await front.apply({ revision: 1, generations: [generation] })
  const target = `${HOST}:${port}`
  const open = () =>
    tlsThrough(socketPath, target, {
      servername: HOST,
      ca: egressRoot.certificate,
      ALPNProtocols: ['http/1.1'],
    })
  const get = async (path = '/a/b', headers = `Authorization: Bearer ${PLACEHOLDER}\r\n`) => {
    const socket = await open()
    const { closed } = received(socket)
    socket.write(`GET ${path} HTTP/1.1\r\nHost: ${target}\r\n${headers}Connection: close\r\n\r\n`)
    return (await closed).toString('latin1')
  }
  const rules = () => reports.flatMap((one) => (one.type === 'denied' ? [one.data.rule] : []))
  return {
    get,
    open,
    front,
    broker,
    reports,
    ofFront,
    rules,
    fetched,
    authorizations,
    target,
    socketPath,
    server,
  }
}

describe('a destination with a credential', () => {
  it('gets the credential in place of the placeholder, from the second process', async () => {
    const { get, authorizations, fetched, reports } = await rig((request, response) =>
      response.end(`encoding ${request.headers['accept-encoding']}`),
    )

    const answers = [await get(), await get()]

    for (const answer of answers) expect(answer).toMatch(/^HTTP\/1\.1 200 [\s\S]*encoding identity/)
    expect(authorizations).toEqual([`Bearer ${VALUE}`, `Bearer ${VALUE}`])
    expect(fetched).toEqual(['run token'])
    expect(reports).toContainEqual({
      type: 'credential-used',
      runId: 'run',
      generation: 1,
      data: { credentialId: 'token', host: HOST, count: 1 },
    })
    expect(JSON.stringify(reports)).not.toContain(VALUE)
  })

  it('gets no request that its entry does not allow, or that has another credential', async () => {
    const { get, authorizations, rules, fetched } = await rig((_request, response) => response.end('reached'))

    expect(await get('/b')).toMatch(/^HTTP\/1\.1 403 /)
    expect(await get('/a/b', 'Authorization: Bearer of-the-agent\r\n')).toMatch(/^HTTP\/1\.1 403 /)
    expect(authorizations).toEqual([])
    expect(fetched).toEqual([])
    expect(rules()).toContain('credential')
    // Without a credential, the host decides.
    expect(await get('/a/b', '')).toContain('reached')
    expect(fetched).toEqual([])
  })

  it.for([
    ['in the body', (response: ServerResponse) => response.end(`before ${VALUE}`), 'credential-echoed'],
    [
      'in base64 over two chunks',
      (response: ServerResponse) => {
        const text = Buffer.from(`user:${VALUE}`).toString('base64')
        response.write(`before ${text.slice(0, 20)}`)
        response.end(text.slice(20))
      },
      'credential-echoed',
    ],
    [
      'in a header',
      (response: ServerResponse) => response.setHeader('x-echo', VALUE).end('body'),
      'credential-echoed',
    ],
    [
      'in a compressed body',
      (response: ServerResponse) => response.setHeader('content-encoding', 'gzip').end(gzipSync(VALUE)),
      'credential',
    ],
  ] as const)('cannot show the credential %s', async ([_name, echo, rule]) => {
    const { get, rules } = await rig((_request, response) => void echo(response))

    const answer = await get()

    expect(answer).not.toContain(VALUE.slice(4))
    expect(answer).not.toContain(Buffer.from(VALUE).toString('base64').slice(4, 40))
    expect(answer).not.toContain(gzipSync(VALUE).toString('latin1').slice(20, 40))
    expect(rules()).toEqual([rule])
  })

  it('gets no more bytes than its entry permits, and the limit is counted once', async () => {
    const entry = { maxSent: { bytes: 1000, entry: HOST } }
    const { get, reports, rules } = await rig((_request, response) => response.end('reached'), { entry })

    expect(await get(`/a/${'b'.repeat(700)}`)).toContain('reached')
    expect(await get(`/a/${'b'.repeat(700)}`)).toMatch(/^HTTP\/1\.1 429 /)

    expect(rules()).toEqual(['budget'])
    const budgets = reports.flatMap((one) => (one.type === 'budget' ? [one.data] : []))
    expect(budgets.map(({ used }) => used)).toEqual([expect.any(Number), 1000])
  })

  it('is closed when the second process no longer lists the run', async () => {
    const { open, broker, target } = await rig((_request, response) => void response.write('begin'))
    const socket = await open()
    const { closed } = received(socket)
    socket.write(`GET /a/b HTTP/1.1\r\nHost: ${target}\r\nAuthorization: Bearer ${PLACEHOLDER}\r\n\r\n`)

    await broker.apply({ revision: 2, generations: [] })

    await closed
  })

  it('keeps no connection of a client that leaves in the middle of a push', async () => {
    const { open, server, target } = await rig(() => undefined)
    const ended = new Promise((resolve) => server.on('secureConnection', (one) => one.once('close', resolve)))
    const socket = await open()
    const push = 'Content-Type: application/x-git-receive-pack-request\r\nContent-Length: 1000\r\n'
    socket.write(`POST /a/git-receive-pack HTTP/1.1\r\nHost: ${target}\r\n${push}\r\n00a0`)
    await new Promise((resolve) => server.once('secureConnection', resolve))

    socket.destroy()

    await ended
  })

  it('is refused by a proxy without the second process', async () => {
    const { socketPath, target, rules } = await rig(() => undefined, { hasBroker: false })

    expect(await exchange(socketPath, `CONNECT ${target} HTTP/1.1\r\n\r\n`)).toMatch(/^HTTP\/1\.1 403 /)
    expect(rules()).toEqual(['credential'])
  })

  it('is refused while the second process does not run', async () => {
    const { socketPath, target, rules } = await rig(() => undefined, { isBrokerRunning: false })

    expect(await exchange(socketPath, `CONNECT ${target} HTTP/1.1\r\n\r\n`)).toContain('is not running')
    expect(rules()).toEqual(['proxy-unavailable'])
  })
})

/** The reports of one kind. */
const hostsOf = (reports: readonly EgressReport[]) =>
  reports.flatMap((one) => (one.type === 'summary' ? one.data.hosts : []))
const usedIn = (reports: readonly EgressReport[]) =>
  reports.reduce((sum, one) => sum + (one.type === 'usage' ? one.bytes : 0), 0)

describe('the bytes of connections to a host with a credential', () => {
  const SIZE = 200_000
  const large: Answer = (_request, response) => response.end(Buffer.alloc(SIZE))

  it('count in the process that counts all bytes of the run', async () => {
    const { get, front, broker, ofFront, reports } = await rig(large)

    expect((await get()).length).toBeGreaterThan(SIZE)
    await front.apply({ revision: 2, generations: [] })
    await broker.apply({ revision: 2, generations: [] })

    expect(usedIn(ofFront)).toBeGreaterThan(SIZE)
    expect(usedIn(ofFront)).toBeLessThan(2 * SIZE)
    // The summary names the host once, with the bytes between the second process and the host.
    expect(hostsOf(ofFront)).toEqual([])
    expect(hostsOf(reports)).toMatchObject([{ host: HOST, connections: 1, denied: 0 }])
  })

  it('end the connections of a run that has used up its bytes', async () => {
    const { open, target, rules, socketPath } = await rig(large, {
      limits: { bytesPerRun: SIZE / 2, meterMs: 20 },
    })
    const socket = await open()
    const { closed } = received(socket)
    socket.write(`GET /a/b HTTP/1.1\r\nHost: ${target}\r\nAuthorization: Bearer ${PLACEHOLDER}\r\n\r\n`)

    await closed

    expect(rules()).toContain('budget')
    expect(await exchange(socketPath, `CONNECT ${target} HTTP/1.1\r\n\r\n`)).toMatch(/^HTTP\/1\.1 429 /)
  })

  it('are none if the state leaves the run no bytes', async () => {
    const { socketPath, target, authorizations } = await rig(large, { state: { bytesLeft: 0 } })

    expect(await exchange(socketPath, `CONNECT ${target} HTTP/1.1\r\n\r\n`)).toMatch(/^HTTP\/1\.1 429 /)
    expect(authorizations).toEqual([])
  })
})

describe('a run that is restricted to reading', () => {
  it('still reads from a host with a credential, because the second process reads each request', async () => {
    const { get, open, target, rules } = await rig((_request, response) => response.end('read'), {
      state: { restriction: 'read-only' },
    })

    expect(await get()).toContain('read')
    const socket = await open()
    const { closed } = received(socket)
    socket.write(`POST /a/b HTTP/1.1\r\nHost: ${target}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`)

    expect((await closed).toString()).toMatch(/^HTTP\/1\.1 403 /)
    expect(rules()).toEqual(['restricted'])
  })
})
