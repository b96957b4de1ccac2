import { generateKeyPairSync } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer as createHttp, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createHttps } from 'node:https'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { exportJWK } from 'jose'
import { onTestFinished } from 'vitest'
import type {
  EgressDenied,
  EgressDestination,
  EgressReport,
  EgressState,
  ModelRoute,
} from '../../contracts/egress.ts'
import { EgressState as State } from '../../contracts/egress.ts'
import { type EgressTokenRequest, signEgressToken } from '../../runtime/api/egress/sign-token.ts'
import type { Reserve } from '../../runtime/egress/admit.ts'
import { CredentialValues } from '../../runtime/egress/credentials/values.ts'
import { EGRESS_LIMITS, type EgressLimits } from '../../runtime/egress/limits.ts'
import type { Resolve } from '../../runtime/egress/look-ups.ts'
import { LoopbackPort } from '../../runtime/egress/loopback-port.ts'
import { EgressProxy } from '../../runtime/egress/proxy.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { authority, HOST, listening, portOf, received } from './proxy-rig.ts'

export const KEY = 'sk-keyOfTheModelServer0000000000000001'
export const POD = { uid: 'pod-1', addresses: ['127.0.0.1'] }
export const QUESTION = { model: 'm', stream: true, messages: [{ role: 'user', content: 'hello' }] }

export type Answer = (request: IncomingMessage, response: ServerResponse) => void

const { privateKey, publicKey } = generateKeyPairSync('ed25519')
const jwk = { ...(await exportJWK(publicKey)), kid: 'k', alg: 'EdDSA', use: 'sig' }
const listen: EgressState['listen'] = State.shape.listen.parse({ port: 0, keys: [jwk] })

/** A token of this sandbox. */
export const tokenOf = (changes: Partial<EgressTokenRequest> = {}) =>
  signEgressToken(
    { kid: 'k', privateKey },
    { runId: 'run', generation: 1, caller: 'agent-host', pod: POD, now: new Date(), ...changes },
  )

interface ModelRigOptions {
  readonly answer?: Answer
  readonly route?: Partial<ModelRoute>
  readonly destinations?: EgressDestination[]
  readonly limits?: Partial<EgressLimits>
  readonly isTls?: boolean
  readonly hasKey?: boolean
  readonly resolve?: Resolve
  readonly reserve?: Reserve
  readonly onReport?: (report: EgressReport) => void
  /** The run of the sandbox. */
  readonly runId?: string
}

const stream: Answer = (_request, response) => {
  response.writeHead(200, { 'content-type': 'text/event-stream', 'set-cookie': 'a=b' })
  response.end('data: {"choices":[]}\n\ndata: [DONE]\n\n')
}

/** The two proxies of a laptop in one process, and a model server. */
export async function modelRig(options: ModelRigOptions = {}) {
  const { answer = stream, route, destinations = [], limits, isTls = true, hasKey = true } = options
  const folder = mkdtempSync(join(tmpdir(), 'aw-model-route-'))
  const requests: { url: string; headers: IncomingMessage['headers']; body: string }[] = []
  const onRequest: Answer = (request, response) => {
    let body = ''
    request.on('data', (chunk) => {
      body += chunk
    })
    request.on('end', () => {
      requests.push({ url: request.url ?? '', headers: request.headers, body })
      answer(request, response)
    })
  }
  const server = await listening(
    isTls ? createHttps(authority.serverFor(HOST), onRequest) : createHttp(onRequest),
  )
  const reports: EgressReport[] = []
  const common = {
    report: (report: EgressReport) => {
      reports.push(report)
      options.onReport?.(report)
    },
    ...(options.reserve && { reserve: options.reserve }),
    limits: { ...EGRESS_LIMITS, ...limits },
    roots: [authority.certificate],
    resolve: options.resolve ?? (async () => ['127.0.0.1']),
  }
  const front = new EgressProxy(common)
  const broker = new EgressProxy({ ...common, credentials: new CredentialValues({ fetch: async () => KEY }) })
  const brokerPath = join(folder, 'model')
  const modelRoute: ModelRoute = {
    upstream: `${isTls ? 'https' : 'http'}://${HOST}:${portOf(server)}/base/v1`,
    header: 'authorization',
    models: ['m'],
    isPrivateAllowed: true,
    ...(hasKey && { credential: 'model-key', brokerPath }),
    ...route,
  }
  const state = (changes: Partial<ModelRoute> = {}, runId = options.runId ?? 'run') => {
    const common = { runId, generation: 1, phase: 'work', pod: POD, destinations } as const
    return { ...common, modelRoute: { ...modelRoute, ...changes } }
  }
  const apply = async (...generations: ReturnType<typeof state>[]) => {
    await front.apply({ revision: 1, generations })
    const ofBroker = generations.map((one) => ({ ...one, agentHostSocketPath: brokerPath, destinations: [] }))
    if (hasKey) await broker.apply({ revision: 1, generations: ofBroker })
  }
  await apply(state())
  if (!listen) throw new Error('the keys are malformed')
  const port = await new LoopbackPort(front, silentLog).use(listen)
  onTestFinished(() => {
    for (const proxy of [front, broker]) proxy.close()
    rmSync(folder, { recursive: true, force: true })
  })
  const url = `http://127.0.0.1:${port}/model/v1`
  const ask = async (
    body: unknown = QUESTION,
    change: RequestInit & { path?: string; token?: string } = {},
  ) => {
    const {
      path = '/chat/completions',
      token = await tokenOf(options.runId === undefined ? {} : { runId: options.runId }),
      ...more
    } = change
    const response = await fetch(`${url}${path}`, {
      method: 'POST',
      body: typeof body === 'string' ? body : JSON.stringify(body),
      redirect: 'manual',
      ...more,
      headers: { authorization: `Bearer ${token}`, 'x-custom': 'c', ...more.headers },
    })
    return { status: response.status, headers: response.headers, text: await response.text() }
  }
  /** Sends bytes to the port, and returns all that comes back. */
  const send = async (bytes: string) => {
    const socket = connect(port, '127.0.0.1')
    onTestFinished(() => void socket.destroy())
    await once(socket, 'connect')
    socket.write(bytes)
    return received(socket)
  }
  const denied = () =>
    reports.flatMap((report): EgressDenied[] => (report.type === 'denied' ? [report.data] : []))
  return { ask, send, apply, state, requests, reports, denied, port, url, serverPort: portOf(server) }
}
