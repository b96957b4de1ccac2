import { STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'
import { EGRESS_REASON_HEADER, EGRESS_RETRY_AFTER_SECONDS, type EgressRule } from '../../contracts/egress.ts'

export interface Refusal {
  readonly rule: EgressRule
  /** The problem, without the host and port. */
  readonly reason: string
  /** The remedy for a person: the narrowest rule that would allow the connection. */
  readonly remedy: string
}

const STATUS_OF_RULE: Readonly<Partial<Record<EgressRule, number>>> = {
  budget: 429,
  certificate: 502,
  'malformed-request': 400,
  method: 405,
  'name-mismatch': 421,
  'proxy-unavailable': 503,
  'too-many-connections': 429,
}

const HEADERS_OF_STATUS: Readonly<Record<number, readonly string[]>> = {
  // Clients of the proxy can send only this scheme by themselves, with the token as the password.
  407: ['proxy-authenticate: Basic realm="agentweaver"'],
  503: [`retry-after: ${EGRESS_RETRY_AFTER_SECONDS}`],
}

/** The HTTP status of a refusal. */
export const statusOf = ({ rule }: { readonly rule: EgressRule }): number => STATUS_OF_RULE[rule] ?? 403

/** The sentence for the client as the value of a header, which may contain only ASCII. */
export const asHeader = (sentence: string): string => sentence.replaceAll(/[^\x20-\x7e]/g, '?')

export const PRIVATE_REMEDY =
  'A person can name the range of a private endpoint in "addresses" of its entry in the egress file.'

/** For the peer to read the answer and close. Otherwise the socket would stay half open for as long as an idle one. */
export const LINGER_MS = 1000

export function closeSoon(socket: Duplex): void {
  const timer = setTimeout(() => socket.destroy(), LINGER_MS)
  socket.once('close', () => clearTimeout(timer))
}

/** Sends the refusal in a form that clients print and models can act on. */
export function answer(client: Duplex, status: number, sentence: string): void {
  closeSoon(client)
  const body = `${sentence}\n`
  client.end(
    [
      `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
      `${EGRESS_REASON_HEADER}: ${asHeader(sentence)}`,
      'content-type: text/plain; charset=utf-8',
      `content-length: ${Buffer.byteLength(body)}`,
      'connection: close',
      ...(HEADERS_OF_STATUS[status] ?? []),
      '',
      body,
    ].join('\r\n'),
  )
}
