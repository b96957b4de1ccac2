import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { request as httpsRequest } from 'node:https'
import type * as z from 'zod'
import { MAX_CREDENTIAL_LENGTH } from '../../../contracts/egress.ts'

export interface ControlPlace {
  readonly url: string
  /** Read for every request, because the kubelet replaces it. */
  readonly tokenFile: string
}

interface ControlRequest {
  readonly path: string
  readonly method: 'GET' | 'POST'
  readonly signal: AbortSignal
  readonly headers?: Readonly<Record<string, string | number>>
  /** How long the connection may be silent, also while it is opened. @default for ever */
  readonly timeoutMs?: number
}

/** Opens a request with the token of this replica. The caller writes the body and ends the request. */
export async function controlRequest(
  { url, tokenFile }: ControlPlace,
  { path, method, signal, headers, timeoutMs }: ControlRequest,
) {
  const token = (await readFile(tokenFile, 'utf8')).trim()
  const target = new URL(path, url)
  const send = target.protocol === 'https:' ? httpsRequest : httpRequest
  const request = send(target, {
    method,
    signal,
    agent: false,
    ...(timeoutMs !== undefined && { timeout: timeoutMs }),
    headers: { ...headers, authorization: `Bearer ${token}` },
  })
  // Without a listener, an error after the answer would end the process. `once` reports earlier ones.
  request.on('error', () => undefined)
  return request
}

interface ControlPost {
  readonly path: string
  readonly sent: object
  readonly signal: AbortSignal
  /** Statuses that the caller handles. Every other one is an error. */
  readonly expected: readonly number[]
  /** Messages of errors, by their status. */
  readonly reasons?: Readonly<Record<number, string>>
}

/** A credential, with its line breaks as JSON writes them. */
const MAX_ANSWER_BYTES = 2 * MAX_CREDENTIAL_LENGTH

/** Posts JSON to the API. No error quotes the answer, because it may contain the value of a credential. */
export async function postControl(
  place: ControlPlace,
  { path, sent, signal, expected, reasons = {} }: ControlPost,
): Promise<{ readonly status: number; readonly text: string }> {
  const body = JSON.stringify(sent)
  const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }
  const request = await controlRequest(place, { path, method: 'POST', signal, headers })
  request.end(body)
  const [response] = (await once(request, 'response', { signal })) as [IncomingMessage]
  const text = await textOf(response)
  const { statusCode: status = 0 } = response
  if (expected.includes(status)) return { status, text }
  throw new Error(reasons[status] ?? `the API answered ${status}`)
}

/** Parses the body of an answer. */
export function parseAnswer<Schema extends z.ZodType>(schema: Schema, text: string): z.infer<Schema> {
  try {
    return schema.parse(JSON.parse(text))
  } catch {
    // biome-ignore lint/style/useErrorCause: the cause quotes the answer.
    throw new Error('the answer of the API cannot be read; it and the proxy must be of one release')
  }
}

async function textOf(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > MAX_ANSWER_BYTES) throw new Error('the answer of the API is too long')
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}
