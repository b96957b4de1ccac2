import { request as httpRequest, type IncomingMessage, type RequestOptions, STATUS_CODES } from 'node:http'
import { request as httpsRequest } from 'node:https'
import type { Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import type { CredentialCheckPlan, CredentialVerdict } from '../../contracts/credential-check.ts'
import { EGRESS_REASON_HEADER } from '../../contracts/egress.ts'
import { messageOf } from '../kit/errors.ts'
import { present } from '../kit/present.ts'
import type { CheckTarget } from './check-network.ts'

/** A way through the egress proxy to one server. */
export interface CheckAccess {
  /** Of the proxy for commands. */
  readonly socketPath: string
  /** How an agent asks its model server for its models. */
  readonly models: RequestOptions
  /** Accepted roots in PEM. @default the roots of Node */
  readonly ca?: string | readonly string[] | undefined
}

export interface CheckWay {
  /** Opens the network of a check. `value` is inserted for the credential of its model route. */
  lend<T>(target: CheckTarget, value: string, use: (access: CheckAccess) => Promise<T>): Promise<T>
}

/** Request options for the list of models, with the token of an agent. `url`: base URL of the proxy for agents. */
export function modelsAt(url: string, token: string): RequestOptions {
  const { hostname, port, pathname } = new URL(`${url}/models`)
  return { hostname, port, path: pathname, headers: { authorization: `Bearer ${token}` } }
}

interface Checked {
  readonly value: string
  /** Ends all requests of the check. */
  readonly signal: AbortSignal
}

const OWN_KEY = 'own-openai-compatible-check'
const HOST_REFUSES: readonly number[] = [401]
const MODEL_SERVER_REFUSES: readonly number[] = [401, 403]
const MAX_REASON = 1000
const HTTPS = 443

/** Asks the server of a credential whether it accepts the value, through the egress proxy. Never fails. */
export async function runCheck(
  way: CheckWay,
  plan: CredentialCheckPlan,
  checked: Checked,
): Promise<CredentialVerdict> {
  try {
    return plan.kind === 'model'
      ? judge(await askModelServer(way, plan, checked), MODEL_SERVER_REFUSES)
      : await checkAtHost(way, plan, checked)
  } catch (error) {
    return unchecked(`its server could not be asked: ${messageOf(error)}`)
  }
}

type Answer = { readonly status: number; readonly refusal?: string | undefined }
type HostPlan = Extract<CredentialCheckPlan, { kind: 'host' }>
type ModelPlan = Extract<CredentialCheckPlan, { kind: 'model' }>

export const unchecked = (reason: string): CredentialVerdict => ({
  verdict: 'unchecked',
  reason: reason.slice(0, MAX_REASON),
})

function judge({ status, refusal }: Answer, refuses: readonly number[]): CredentialVerdict {
  if (refusal !== undefined) return unchecked(`the egress proxy did not let the request pass: ${refusal}`)
  if (refuses.includes(status)) return { verdict: 'refused', status }
  const words = `${status} ${STATUS_CODES[status] ?? ''}`.trim()
  return status >= 200 && status < 300 ? { verdict: 'accepted' } : unchecked(`its server answered ${words}`)
}

function askModelServer(way: CheckWay, { route }: ModelPlan, { value, signal }: Checked): Promise<Answer> {
  const target = { destinations: [], modelRoute: { ...route, credential: OWN_KEY } }
  return way.lend(target, value, async ({ models }) => {
    const sent = httpRequest({ ...models, signal })
    sent.end()
    return answerOf(await responseOf(sent))
  })
}

async function checkAtHost(way: CheckWay, plan: HostPlan, checked: Checked): Promise<CredentialVerdict> {
  const { path, user, isPublicPossible } = plan
  if (isPublicPossible) {
    const anonymous = await askHost(way, plan, { headers: {}, signal: checked.signal })
    if (anonymous.status === 200)
      return unchecked(`everybody may read ${path.replace(/\/info\/refs\?.*$/, '')} there`)
  }
  const authorization =
    user === undefined
      ? `Bearer ${checked.value}`
      : `Basic ${Buffer.from(`${user}:${checked.value}`).toString('base64')}`
  return judge(await askHost(way, plan, { headers: { authorization }, signal: checked.signal }), HOST_REFUSES)
}

type Sent = { readonly headers: Readonly<Record<string, string>>; readonly signal: AbortSignal }

function askHost(way: CheckWay, { destination, path }: HostPlan, { headers, signal }: Sent): Promise<Answer> {
  const { host, ports } = destination
  return way.lend({ destinations: [destination] }, '', async ({ socketPath, ca }) => {
    const tunnel = await openTunnel(socketPath, `${host}:${ports[0] ?? HTTPS}`, signal)
    if ('status' in tunnel) return tunnel
    const trusted = present({ ca: typeof ca === 'string' || ca === undefined ? ca : [...ca] })
    const sent = httpsRequest({
      createConnection: () => connectTls({ socket: tunnel.socket, servername: host, ...trusted }),
      // Without an agent, Node assumes port 80, and `Host` would name it.
      ...{ host, port: ports[0] ?? HTTPS, defaultPort: HTTPS, path },
      headers: { ...headers, 'user-agent': 'agentweaver', connection: 'close' },
      signal,
    })
    sent.end()
    // A header of the server itself is no refusal of the proxy, which only passes the bytes of TLS on.
    const { status } = await answerOf(await responseOf(sent))
    return { status }
  })
}

async function openTunnel(
  socketPath: string,
  path: string,
  signal: AbortSignal,
): Promise<{ socket: Socket } | Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<{ socket: Socket } | Answer>()
  const sent = httpRequest({ socketPath, method: 'CONNECT', path, headers: { host: path }, signal })
  sent.on('error', reject)
  sent.on('close', () => reject(new Error('the egress proxy ended the connection')))
  sent.on('connect', (answer, socket) => {
    if (answer.statusCode === 200) resolve({ socket })
    else resolve({ status: answer.statusCode ?? 0, refusal: refusalIn(answer) ?? 'it opened no connection' })
  })
  sent.end()
  return promise
}

async function responseOf(sent: ReturnType<typeof httpRequest>): Promise<IncomingMessage> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
  sent.on('error', reject).on('response', resolve)
  // After a response with 101, Node emits only this event.
  sent.on('upgrade', (_answer, socket) => {
    socket.destroy()
    reject(new Error('it changed the protocol'))
  })
  sent.on('close', () => reject(new Error('it ended the connection without a response')))
  return promise
}

/** The body is not read: the status is enough. */
async function answerOf(response: IncomingMessage): Promise<Answer> {
  const answer = { status: response.statusCode ?? 0, refusal: refusalIn(response) }
  response.destroy()
  return answer
}

function refusalIn({ headers }: IncomingMessage): string | undefined {
  const sentence = headers[EGRESS_REASON_HEADER]
  return typeof sentence === 'string' ? sentence : undefined
}
