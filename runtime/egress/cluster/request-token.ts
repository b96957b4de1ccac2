import { CLIENT_HEADER } from '../credentials/pass-to-broker.ts'
import { isForModel } from '../model/route.ts'

/** Both schemes carry the same token. Clients that take a proxy from a URL can send only Basic. */
const HEADER = /^proxy-authorization[ \t]*:(.*)$/i
const BEARER = /^bearer +([A-Za-z0-9._-]{1,4096})$/i
const BASIC = /^basic +([A-Za-z0-9+/]{1,8192}={0,2})$/i
/** `user:password`, with the token as the password. */
const PASSWORD = /^[^:]*:([A-Za-z0-9._-]{1,4096})$/

const HEAD_END = '\r\n\r\n'

/** The header of the first request of a connection, or undefined if it is not complete. */
export function headOf(bytes: Buffer): string | undefined {
  const end = bytes.indexOf(HEAD_END)
  return end < 0 ? undefined : bytes.toString('latin1', 0, end)
}

/** The SDK of a model sends requests as to a server, and can set only the header for a server. */
const MODEL_REQUEST = /^[A-Z-]{1,16} +(\/[^ ]*)/
const SERVER_HEADER = /^authorization[ \t]*:(.*)$/i

export const isModelHead = (head: string): boolean =>
  isForModel(MODEL_REQUEST.exec(head.split('\r\n', 1).join())?.[1] ?? '')
const CLIENT = new RegExp(`\\r\\n${CLIENT_HEADER}: ([0-9A-Fa-f:.]{1,45})(?:\\r\\n|$)`)

/** The address of the client, as the process of the proxy that has accepted the connection reports it. */
export const clientOf = (head: string): string => CLIENT.exec(head)?.[1] ?? ''

/**
 * Node's parser skips empty lines before a request, and ends a request line without a version at a line feed. Both could hide
 * what kind of request it is.
 */
const PLAIN_HEAD = /^[A-Z][^\r\n]*(?:\r\n[^\r\n]*)*$/

/** The token in the header of a request. Undefined if there is none, or more than one header for it. */
export function tokenOf(head: string): string | undefined {
  if (!PLAIN_HEAD.test(head)) return undefined
  const header = isModelHead(head) ? SERVER_HEADER : HEADER
  const values = head.split('\r\n').flatMap((line) => header.exec(line)?.[1]?.trim() ?? [])
  const [value = ''] = values
  if (values.length !== 1) return undefined
  const basic = BASIC.exec(value)?.[1]
  if (basic === undefined) return BEARER.exec(value)?.[1]
  return PASSWORD.exec(Buffer.from(basic, 'base64').toString('latin1'))?.[1]
}
