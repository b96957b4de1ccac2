import type { IncomingMessage } from 'node:http'
import { parseAuthority, type Target, withPort } from './authority.ts'
import { parsePath, type RequestPath } from './path.ts'
import type { Refusal } from './refusals.ts'
import { headerFault, headersNamed, isMethodOverride, optionsOf, pairs } from './request-headers.ts'

export type RequestHead = Pick<IncomingMessage, 'method' | 'rawHeaders' | 'httpVersion'>

/** What a request needs beyond its method and path: a permission of its entry. */
export const REQUEST_NEEDS = ['encoded-slash', 'get-body', 'method-override', 'websocket'] as const
export type RequestNeed = (typeof REQUEST_NEEDS)[number]

/** The facts about a request that the policy decides on. */
export interface RequestFacts {
  readonly method: string
  readonly path: RequestPath
  readonly needs: readonly RequestNeed[]
}

export interface Addressed {
  /** Whom the connection is for: the target of CONNECT, or of the absolute form. */
  readonly target: Target
  /** The path with its query, as it is sent on. */
  readonly path: string
  readonly protocol: 'http' | 'https'
}

export type ReadRequest =
  | { readonly ok: true; readonly facts: RequestFacts }
  | { readonly ok: false; readonly refusal: Refusal }

const DEFAULT_PORT = { http: 80, https: 443 } as const
const BODILESS = new Set(['GET', 'HEAD'])
const NEVER_ALLOWED = new Set(['TRACE', 'TRACK', 'CONNECT', 'PRI'])
const VERSIONS = new Set(['1.0', '1.1'])
const FIX_REQUEST = 'Send a plain HTTP/1.1 request with one Host header.'
/** Keys of a query with which some frameworks replace the method. */
const OVERRIDING_KEYS = new Set(['_method', '_httpmethod', '$httpmethod', 'httpmethod'])

const refusal = (rule: Refusal['rule'], reason: string, remedy = FIX_REQUEST): Refusal => ({
  rule,
  reason,
  remedy,
})

/**
 * The judge of every request that the proxy can read: with the absolute form, inside a tunnel, and inside TLS. Refuses
 * what no entry can allow, and returns the facts for the decision about the rest.
 */
export function readRequest(head: RequestHead, addressed: Addressed): ReadRequest {
  const path = parsePath(addressed.path)
  const fault =
    hostFault(head, addressed) ??
    methodFault(head) ??
    malformed(headerFault(head.rawHeaders)) ??
    framingFault(head) ??
    upgradeFault(head) ??
    (path.ok ? undefined : refusal('malformed-request', path.reason, 'Send the path in its shortest form.'))
  if (fault || !path.ok) return { ok: false, refusal: fault as Refusal }
  const needs = REQUEST_NEEDS.filter((need) => NEEDED[need](head, path.path, addressed))
  return { ok: true, facts: { method: head.method ?? '', path: path.path, needs } }
}

const malformed = (reason: string | undefined) =>
  reason === undefined ? undefined : refusal('malformed-request', reason)

function hostFault(head: RequestHead, { target, protocol }: Addressed): Refusal | undefined {
  const hosts = headersNamed(head, 'host')
  const [host = ''] = hosts
  const named = parseAuthority(withPort(host, DEFAULT_PORT[protocol]))
  const isSame = named.ok && named.target.host.name === target.host.name && named.target.port === target.port
  return hosts.length === 1 && isSame
    ? undefined
    : refusal('name-mismatch', 'the Host header names another target than the connection')
}

function methodFault({ method = '', httpVersion }: RequestHead): Refusal | undefined {
  if (NEVER_ALLOWED.has(method)) return refusal('method', `the method ${method} is never forwarded`)
  return VERSIONS.has(httpVersion) ? undefined : malformed('the version of HTTP is not 1.0 or 1.1')
}

/** Node's parser refuses other ambiguous framing, and frames each request again. */
function framingFault(head: RequestHead): Refusal | undefined {
  const codings = headersNamed(head, 'transfer-encoding')
  const lengths = headersNamed(head, 'content-length')
  if (codings.length > 1 || lengths.length > 1 || (codings.length > 0 && lengths.length > 0))
    return malformed('the length of the body is ambiguous')
  if (codings.length > 0 && head.httpVersion !== '1.1') return malformed('HTTP/1.0 has no transfer coding')
  if (lengths.some((length) => !/^\d{1,15}$/.test(length)))
    return malformed('the Content-Length is no number')
  const [expectation, ...more] = headersNamed(head, 'expect')
  const isKnown = expectation === undefined || expectation.toLowerCase() === '100-continue'
  return isKnown && more.length === 0 ? undefined : malformed('the only expectation is 100-continue')
}

const hasBody = (head: RequestHead): boolean =>
  headersNamed(head, 'transfer-encoding').length > 0 ||
  headersNamed(head, 'content-length').some((length) => !/^0+$/.test(length))

const asksForUpgrade = (head: RequestHead): boolean =>
  headersNamed(head, 'upgrade').length > 0 ||
  headersNamed(head, 'connection').some((value) => optionsOf(value).includes('upgrade'))

/** The only upgrade is a complete opening handshake of a websocket (RFC 6455, section 4.1). */
function upgradeFault(head: RequestHead): Refusal | undefined {
  if (!asksForUpgrade(head)) return undefined
  const only = (name: string) => headersNamed(head, name).map((value) => value.toLowerCase())
  const isWebsocket =
    head.method === 'GET' &&
    head.httpVersion === '1.1' &&
    !hasBody(head) &&
    only('upgrade').join() === 'websocket' &&
    headersNamed(head, 'connection').some((value) => optionsOf(value).includes('upgrade')) &&
    only('sec-websocket-version').join() === '13' &&
    /^[A-Za-z0-9+/]{22}==$/.test(headersNamed(head, 'sec-websocket-key').join())
  if (isWebsocket) return undefined
  return refusal('request', 'an upgrade of the connection is not allowed', 'Use HTTP/1.1 without Upgrade.')
}

const NEEDED: Readonly<
  Record<RequestNeed, (head: RequestHead, path: RequestPath, addressed: Addressed) => boolean>
> = {
  'encoded-slash': (_head, { hasEncodedSlash }) => hasEncodedSlash,
  'get-body': (head) => BODILESS.has(head.method ?? '') && hasBody(head),
  'method-override': ({ rawHeaders }, _path, { path }) =>
    pairs(rawHeaders).some(([key]) => isMethodOverride(key)) || overridesInQuery(path),
  websocket: (head) => asksForUpgrade(head),
}

function overridesInQuery(path: string): boolean {
  const [, query = ''] = path.split(/\?(.*)/s)
  return [...new URLSearchParams(query.replaceAll(';', '&')).keys()].some(
    (key) => OVERRIDING_KEYS.has(key.toLowerCase()) || isMethodOverride(key),
  )
}
