import type { EgressDestination } from '../../../contracts/egress.ts'
import { equalsInConstantTime } from '../../kit/constant-time.ts'
import { pairs } from '../request-headers.ts'

/** What a sandbox holds instead of a credential. */
export interface Placeholder {
  readonly credential: string
  readonly value: string
}

export interface Inserting {
  /** The credential of the destination. */
  readonly credential: string
  /** All placeholders of the sandbox. */
  readonly placeholders: readonly Placeholder[]
  /** The proxy connects with the credential, so no request carries one. */
  readonly kind?: EgressDestination['credentialKind']
}

/** Returns the value of the header with a credential in place of its placeholder. */
type Insert = (credential: string) => string

export type FoundPlaceholder =
  | {
      readonly ok: true
      readonly at: number | undefined
      readonly insert: Insert
      /** Instead of the headers of the request. */
      readonly rawHeaders?: readonly string[]
    }
  | { readonly ok: false; readonly reason: string; readonly remedy: string }

/** Headers in which servers expect a credential. */
const CREDENTIAL_HEADERS = new Set(['authorization', 'api-key', 'private-token', 'x-api-key'])

/** Credentials that clients have from somewhere else. A sandbox could use them to send data to another account. */
const OTHER_CREDENTIALS = new Set([
  ...[...CREDENTIAL_HEADERS, 'cookie', 'proxy-authorization', 'deploy-token', 'job-token'],
  ...['x-auth-token', 'x-github-token', 'x-gitlab-token', 'x-goog-api-key'],
])

/** As CGI and frameworks read the name of a header. */
const canonical = (name: string) => name.toLowerCase().replaceAll('_', '-')

const SCHEME = /^(bearer|token|basic) +(\S+)$/i

const refused = (reason: string, remedy: string): FoundPlaceholder => ({ ok: false, reason, remedy })

const ACCEPTED = {
  token: 'the placeholder of this run',
  certificate: 'the client certificate of the egress proxy',
} as const

/**
 * Finds the placeholder of the destination's credential in the headers of a request. Every other credential is refused, and
 * a placeholder anywhere else too.
 */
export function findPlaceholder(
  rawHeaders: readonly string[],
  path: string,
  { credential, placeholders, kind }: Inserting,
): FoundPlaceholder {
  const own = placeholders.find((one) => one.credential === credential)?.value
  const useOwn = kind
    ? 'Send the request without a credential: the egress proxy connects to this host with a client certificate.'
    : `Send the placeholder of the credential ${credential}, which the environment of the command has, in the header Authorization, Api-Key, X-Api-Key or Private-Token.`
  if (placeholders.some(({ value }) => path.includes(value)))
    return refused('the path has a placeholder, which is only replaced in headers', useOwn)
  const headers = pairs(rawHeaders)
  const named = headers.flatMap(([name], at) => (OTHER_CREDENTIALS.has(canonical(name)) ? [at] : []))
  const stray = headers.find(([, value], at) => !named.includes(at) && holdsAny(value, placeholders))
  if (stray) return refused(`the placeholder is in the header ${stray[0]}`, useOwn)
  const [at, second] = named
  if (at === undefined) return { ok: true, at: undefined, insert: (real) => real }
  if (second !== undefined) return refused('the request has two headers with credentials', useOwn)
  const [name, value] = headers[at] as readonly [string, string]
  const insert = own === undefined ? undefined : insertionOf(name.toLowerCase(), value, own)
  if (insert) return { ok: true, at: at * 2 + 1, insert }
  const other = placeholders.find((one) => one.value !== own && holdsAny(value, [one]))
  return other
    ? refused(`the credential ${other.credential} is not for this host`, useOwn)
    : refused(
        `this host accepts no other credential than ${kind ? ACCEPTED.certificate : ACCEPTED.token}`,
        useOwn,
      )
}

/** Adds a credential to a request. Every other one is dropped, because clients have placeholders from their settings. */
export function attachTo(
  rawHeaders: readonly string[],
  { user }: { readonly user?: string | undefined },
): FoundPlaceholder {
  const others = pairs(rawHeaders).filter(([name]) => !OTHER_CREDENTIALS.has(canonical(name)))
  const headers = [...others.flat(), 'Authorization', '']
  const insert: Insert = (real) =>
    user === undefined ? `Bearer ${real}` : `Basic ${encoded(`${user}:${real}`)}`
  return { ok: true, at: headers.length - 1, insert, rawHeaders: headers }
}

function insertionOf(name: string, value: string, own: string): Insert | undefined {
  if (name !== 'authorization')
    return CREDENTIAL_HEADERS.has(name) && equalsInConstantTime(value, own) ? (real) => real : undefined
  const [, scheme = '', rest = ''] = SCHEME.exec(value) ?? []
  if (scheme.toLowerCase() !== 'basic')
    return equalsInConstantTime(rest, own) ? (real) => `${scheme} ${real}` : undefined
  const [user = '', ...more] = decoded(rest).split(':')
  const password = more.join(':')
  if (equalsInConstantTime(password, own)) return (real) => `Basic ${encoded(`${user}:${real}`)}`
  // Some clients send a token as the user.
  return equalsInConstantTime(user, own) ? (real) => `Basic ${encoded(`${real}:${password}`)}` : undefined
}

const decoded = (text: string) => Buffer.from(text, 'base64').toString('utf8')
const encoded = (text: string) => Buffer.from(text, 'utf8').toString('base64')

const holdsAny = (value: string, placeholders: readonly Placeholder[]) =>
  placeholders.some((one) => value.includes(one.value) || decodedBasic(value).includes(one.value))

const decodedBasic = (value: string) => {
  const [, scheme = '', rest = ''] = SCHEME.exec(value) ?? []
  return scheme.toLowerCase() === 'basic' ? decoded(rest) : ''
}

/** Headers with which a server could send an answer that cannot be searched for the credential. */
const ENCODINGS = new Set(['accept-encoding', 'range', 'if-range'])

/** The headers of a request with the credential in place. Its answer must be whole and without an encoding. */
export function withCredential(
  rawHeaders: readonly string[],
  found: Extract<FoundPlaceholder, { ok: true }>,
  value: string,
): string[] {
  const inserted = rawHeaders.map((text, index) => (index === found.at ? found.insert(value) : text))
  const kept = pairs(inserted).filter(([name]) => !ENCODINGS.has(name.toLowerCase()))
  return [...kept.flat(), 'Accept-Encoding', 'identity']
}
