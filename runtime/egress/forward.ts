import { request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { EGRESS_REASON_HEADER } from '../../contracts/egress.ts'
import { type Target, withPort } from './authority.ts'
import { CredentialEchoed } from './credentials/echo.ts'
import { ECHOED, type Passed } from './credentials/gate.ts'
import { asHeader, LINGER_MS, type Refusal, statusOf } from './refusals.ts'
import { forwardedHeaders, headersNamed } from './request-headers.ts'
import { clientFault } from './upstream-tls.ts'

/** A judged request, and the connection for it. */
export interface Outgoing {
  readonly request: IncomingMessage
  readonly target: Target
  readonly path: string
  readonly upstream: Socket
  readonly protocol: 'http' | 'https'
  readonly headerBytes: number
}

export interface Forwarded extends Outgoing {
  readonly response: ServerResponse
  /** The request with a credential in it, if its destination has one. */
  readonly passed?: Passed | undefined
  /** Reports that the request or its answer was refused, and returns the sentence for the client. */
  readonly refuse: (refusal: Refusal) => string
  /** Counts bytes of the body before they are sent. Returns why they must not be sent. */
  readonly spend: (bytes: number) => Refusal | undefined
}

/**
 * Sends a judged request on. Node frames it again, so that both sides agree on its end. The connection serves nothing
 * else and is closed with the response, so that no other client gets bytes after it, or a
 * response that came before the end of the request.
 */
export function forward(forwarded: Forwarded): void {
  const { request, response, passed, refuse, spend } = forwarded
  const sent = httpRequest({
    ...requestOptions(forwarded),
    headers: [...requestHeaders(forwarded), 'Connection', 'close', ...framing(request)],
  })
  const fail = (reason = 'the host ended the connection') => {
    sent.destroy()
    if (response.headersSent) response.destroy()
    else endWith(response, 502, failure(forwarded, reason))
  }
  sent.on('error', (error) => fail(clientFault(error)))
  sent.on('upgrade', (_answer, upgraded) => {
    upgraded.destroy()
    fail('the host changed the protocol')
  })
  sent.on('response', (answer) => {
    const fault = answerFault(answer)
    const refusal = passed?.answer.headerFault(answer)
    if (fault !== undefined) fail(fault)
    else if (refusal) {
      sent.destroy()
      endWith(response, 502, refuse(refusal))
    } else sendResponse(answer, forwarded, fail)
  })
  response.once('close', () => sent.destroy())
  // The headers were judged, so the client may send the body.
  if (request.headers.expect !== undefined) response.writeContinue()
  const body = passed?.body ?? request
  body.on('error', () => sent.destroy())
  // Before the pipe, which would send the bytes.
  body.on('data', (chunk: Buffer) => {
    const refusal = spend(chunk.length)
    if (!refusal || sent.destroyed) return
    body.unpipe(sent)
    sent.destroy()
    const sentence = refuse(refusal)
    if (response.headersSent) response.destroy()
    else endWith(response, statusOf(refusal), sentence)
  })
  body.pipe(sent)
}

function sendResponse(
  answer: IncomingMessage,
  { response, passed, refuse }: Forwarded,
  fail: () => void,
): void {
  answer.on('error', () => fail())
  const body = passed?.answer.body(answer) ?? answer
  body.on('error', (error) => {
    if (error instanceof CredentialEchoed) refuse(ECHOED)
    fail()
  })
  try {
    // Without the reason phrase, which may contain characters that Node does not send.
    response.writeHead(answer.statusCode ?? 502, responseHeaders(answer))
    body.pipe(response)
  } catch {
    fail()
  }
}

export const failure = ({ target: { host, port } }: Pick<Outgoing, 'target'>, reason: string): string =>
  `Connection to ${host.name}:${port} failed: ${reason}.`

/** The request options that concern the connection and the target. */
export const requestOptions = ({ request, path, upstream, headerBytes }: Outgoing) => ({
  // Without an agent: an agent would look the host up and connect by itself.
  createConnection: () => upstream,
  method: request.method,
  path,
  setHost: false,
  maxHeaderSize: headerBytes,
})

const DEFAULT_PORT = { http: 80, https: 443 } as const

/** `Host` is written in the spelling that was compared. */
export function requestHeaders({
  request,
  target,
  protocol,
  passed,
}: Outgoing & Pick<Forwarded, 'passed'>): string[] {
  const { name } = target.host
  const host = target.port === DEFAULT_PORT[protocol] ? name : withPort(name, target.port)
  return ['Host', host, ...forwardedHeaders(passed?.rawHeaders ?? request.rawHeaders, ['expect', 'host'])]
}

/** A sentence of this proxy must not come from a server. */
export const responseHeaders = ({ rawHeaders }: IncomingMessage): string[] =>
  forwardedHeaders(rawHeaders, [EGRESS_REASON_HEADER])

/** A method that usually has a body gets an explicit length, because Node would send chunks. */
function framing(request: IncomingMessage): string[] {
  if (headersNamed(request, 'transfer-encoding').length > 0) return ['Transfer-Encoding', 'chunked']
  return headersNamed(request, 'content-length').length > 0 || request.method === 'GET'
    ? []
    : ['Content-Length', '0']
}

/** Returns why a response has no certain end, or undefined. */
export function answerFault(answer: IncomingMessage): string | undefined {
  const codings = headersNamed(answer, 'transfer-encoding')
  const lengths = headersNamed(answer, 'content-length')
  const isPlain = codings.length === 0 || (codings.length === 1 && /^\s*chunked\s*$/i.test(codings[0] ?? ''))
  if (!isPlain) return 'the response has a transfer coding other than chunked'
  return lengths.length > 1 || (lengths.length > 0 && codings.length > 0)
    ? 'the length of the response is ambiguous'
    : undefined
}

const MAX_PHRASE = 500

/** Ends a response with a sentence of the proxy. Many clients print the reason phrase, and few the body. */
export function endWith(response: ServerResponse, status: number, sentence: string): void {
  const { req: request } = response
  const body = `${sentence}\n`
  response.writeHead(status, asHeader(sentence).slice(0, MAX_PHRASE), {
    [EGRESS_REASON_HEADER]: asHeader(sentence),
    'content-type': 'text/plain; charset=utf-8',
    'content-length': Buffer.byteLength(body),
    connection: 'close',
  })
  if (request.complete) {
    response.end(body)
    return
  }
  // Node closes the connection at the end. A client that is still sending its request would lose the response.
  response.write(body)
  const end = () => response.end()
  const timer = setTimeout(end, LINGER_MS)
  response.once('close', () => clearTimeout(timer))
  request.once('end', end).resume()
}
