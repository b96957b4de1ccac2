import { request as httpRequest, type IncomingMessage, STATUS_CODES } from 'node:http'
import { request as httpsRequest } from 'node:https'
import type { Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { EGRESS_REASON_HEADER, type EgressDestination, type ModelRoute } from '../../../contracts/egress.ts'
import type { UserCredentialKind } from '../../../contracts/user-credentials.ts'
import { intersectHosts } from '../../../policies/agent/egress/narrow.ts'
import { messageOf, SandboxError } from '../../kit/errors.ts'
import { present } from '../../kit/present.ts'
import type { CheckTarget } from '../egress/check-network.ts'
import { GIT_USER } from './own-destinations.ts'

/** A way through the egress proxy to one server. */
export interface CheckAccess {
  /** Of the proxy for commands. */
  readonly socketPath: string
  /** Base URL of the proxy for agents, and their token. */
  readonly modelUrl: string
  readonly token: string
  /** Roots in PEM. */
  readonly ca: string
}

export interface CheckWay {
  /** Opens the network of a check. `value` is inserted for the credential of its model route. */
  lend<T>(target: CheckTarget, value: string, use: (access: CheckAccess) => Promise<T>): Promise<T>
}

export type CheckResult =
  | { readonly isChecked: true }
  /** Why it was not checked, in words. */
  | { readonly isChecked: false; readonly reason: string }

/** Throws `invalid_request` if the server does not accept the value. */
export type CredentialCheck = (wanted: {
  readonly kind: UserCredentialKind
  readonly target: string
  readonly value: string
  readonly user?: string | undefined
}) => Promise<CheckResult>

const TIMEOUT_MS = 15_000
const GITHUB_API = 'api.github.com'
/** Any token may ask for its limits, and the request counts against none. GitHub answers 401 to an unknown token. */
const GITHUB_PATH = '/rate_limit'
const OWN_KEY = 'own-openai-compatible-check'

const unchecked = (reason: string): CheckResult => ({ isChecked: false, reason })

type Parts = {
  /** The model server as the requests of agents reach it. */
  readonly routeTo: (server: string) => ModelRoute
  /** The hosts of the operator's ceiling. Undefined if it names none. */
  readonly hosts: readonly string[] | undefined
  /** An entry of the operator's list for a git server. */
  readonly gitServer: (host: string) => EgressDestination | undefined
}

/** Asks the server of a credential with one cheap request, through the egress proxy of this machine. */
export function createCredentialCheck(way: CheckWay, { routeTo, hosts, gitServer }: Parts): CredentialCheck {
  const unlessWithheld = async (host: string, check: () => Promise<CheckResult>): Promise<CheckResult> =>
    hosts === undefined || intersectHosts(hosts, [host]).length > 0
      ? check()
      : unchecked(`the ceiling of this service does not allow ${host} (egress_hosts)`)
  const ask: Readonly<Record<UserCredentialKind, Ask>> = {
    registry: async () => unchecked('registries have no common request for it'),
    git: (target, value, user) =>
      unlessWithheld(target, () => checkAtGitServer(way, gitServer(target), { value, user })),
    github: (_target, value) =>
      unlessWithheld(GITHUB_API, async () => {
        const headers = { authorization: `Bearer ${value}` }
        const asked = { host: GITHUB_API, port: 443, path: GITHUB_PATH, headers }
        return judge(await askHost(way, asked), 'GitHub', [401])
      }),
    'openai-compatible': async (target, value) =>
      judge(await askModelServer(way, routeTo(target), value), `The model server at ${target}`, [401, 403]),
  }
  return async ({ kind, target, value, user }) => {
    try {
      return await ask[kind](target, value, user)
    } catch (error) {
      if (error instanceof SandboxError && error.code === 'invalid_request') throw error
      return unchecked(`its server could not be asked: ${messageOf(error)}`)
    }
  }
}

type Ask = (target: string, value: string, user: string | undefined) => Promise<CheckResult>

type Answer = { readonly status: number; readonly refusal?: string | undefined }

function judge({ status, refusal }: Answer, server: string, refuses: readonly number[]): CheckResult {
  if (refusal !== undefined) return unchecked(`the egress proxy did not let the request pass: ${refusal}`)
  const words = `${status} ${STATUS_CODES[status] ?? ''}`.trim()
  if (refuses.includes(status))
    throw new SandboxError(
      'invalid_request',
      `${server} does not accept this value: ${words}. Nothing was stored.`,
    )
  return status < 300 ? { isChecked: true } : unchecked(`its server answered ${words}`)
}

function askModelServer(way: CheckWay, route: ModelRoute, value: string): Promise<Answer> {
  const target = { destinations: [], modelRoute: { ...route, credential: OWN_KEY } }
  return way.lend(target, value, async ({ modelUrl, token }) => {
    const headers = { authorization: `Bearer ${token}` }
    const sent = httpRequest(`${modelUrl}/models`, { headers, signal: AbortSignal.timeout(TIMEOUT_MS) })
    sent.end()
    return answerOf(await responseOf(sent))
  })
}

/** Asks for the list of refs of a repository of the entry, first without the value: what everybody may read shows nothing. */
async function checkAtGitServer(
  way: CheckWay,
  entry: EgressDestination | undefined,
  { value, user = GIT_USER }: { readonly value: string; readonly user: string | undefined },
): Promise<CheckResult> {
  const paths = entry?.requests?.flatMap((one) => one.paths) ?? []
  const refs = paths.find((path) => path.endsWith('.git/info/refs') && !path.includes('*'))
  if (!entry || refs === undefined) return unchecked('the egress list names no repository of this server')
  const { host, ports, addresses } = entry
  const ask = (headers: Readonly<Record<string, string>>) =>
    askHost(way, {
      ...{ host, port: ports[0] ?? 443, path: `${refs}?service=git-upload-pack`, headers },
      ...present({ addresses }),
    })
  const anonymous = await ask({})
  if (anonymous.status === 200) return unchecked(`everybody may read ${refs.replace('/info/refs', '')} there`)
  const authorization = `Basic ${Buffer.from(`${user}:${value}`).toString('base64')}`
  return judge(await ask({ authorization }), `The git server ${host}`, [401])
}

interface Asked {
  readonly host: string
  readonly port: number
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  /** Of a private endpoint. */
  readonly addresses?: string[]
}

function askHost(way: CheckWay, { host, port, path, headers, addresses }: Asked): Promise<Answer> {
  const destination: EgressDestination = {
    ...{ host, ports: [port], methods: ['GET'], phases: ['work'], caller: 'any' },
    ...present({ addresses }),
  }
  return way.lend({ destinations: [destination] }, '', async ({ socketPath, ca }) => {
    const signal = AbortSignal.timeout(TIMEOUT_MS)
    const tunnel = await openTunnel(socketPath, `${host}:${port}`, signal)
    if ('status' in tunnel) return tunnel
    const sent = httpsRequest({
      createConnection: () => connectTls({ socket: tunnel.socket, servername: host, ca }),
      host,
      path,
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
  return promise
}

/** The body is not read: it says nothing that the status does not say. */
async function answerOf(response: IncomingMessage): Promise<Answer> {
  const answer = { status: response.statusCode ?? 0, refusal: refusalIn(response) }
  response.destroy()
  return answer
}

function refusalIn({ headers }: IncomingMessage): string | undefined {
  const sentence = headers[EGRESS_REASON_HEADER]
  return typeof sentence === 'string' ? sentence : undefined
}
