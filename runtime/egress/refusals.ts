import { STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'
import { EGRESS_REASON_HEADER, type EgressRule } from '../../contracts/egress.ts'

/** The HTTP status of a refusal. @default 403 */
export const STATUS_OF_RULE: Readonly<Partial<Record<EgressRule, number>>> = {
  budget: 429,
  'malformed-request': 400,
  method: 405,
  'name-mismatch': 421,
  'proxy-unavailable': 503,
  'too-many-connections': 429,
}

const HEADERS_OF_STATUS: Readonly<Record<number, readonly string[]>> = {
  // Clients of the proxy can send only this scheme by themselves, with the token as the password.
  407: ['proxy-authenticate: Basic realm="agentweaver"'],
  503: ['retry-after: 5'],
}

/** The sentence for the client as the value of a header, which may contain only ASCII. */
export const asHeader = (sentence: string): string => sentence.replaceAll(/[^\x20-\x7e]/g, '?')

export const PRIVATE_REMEDY =
  'A person can name the range of a private endpoint in "addresses" of its entry in the egress file.'

/** Sends the refusal in a form that clients print and models can act on. */
export function answer(client: Duplex, status: number, sentence: string): void {
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
