import { request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import { withPort } from '../authority.ts'
import { CredentialEchoed } from '../credentials/echo.ts'
import { type AnswerGuard, ECHOED } from '../credentials/gate.ts'
import { answerFault } from '../forward.ts'
import { pairs } from '../request-headers.ts'
import { RequestFailed, RequestRefused } from './answers.ts'
import type { RequestAccount } from './budget.ts'
import { type ModelEndpoint, type ModelServer, pathOf } from './route.ts'

export interface Exchange {
  readonly server: ModelServer
  readonly endpoint: ModelEndpoint
  readonly body: Buffer | undefined
  /** With the credential. */
  readonly headers: readonly string[]
  readonly upstream: Socket
  /** Searches the answer for the credential. */
  readonly guard?: AnswerGuard | undefined
  /** Counts what the request uses. Absent for a list of models. */
  readonly account?: RequestAccount | undefined
  readonly headerBytes: number
}

const DEFAULT_PORT = { http: 80, https: 443 } as const

/** Headers of an answer that the SDKs of models read. */
const PASSED = /^(?:content-type|content-length|retry-after|retry-after-ms|x-request-id|x-ratelimit-.+)$/

/**
 * Sends a request to the model server and passes the answer on as it arrives. Resolves when the answer has ended. Throws
 * `RequestRefused` or `RequestFailed`.
 */
export async function exchange(sending: Exchange, response: ServerResponse): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const { server, endpoint, body, upstream, headers, headerBytes } = sending
  const { name } = server.target.host
  const isDefault = server.target.port === DEFAULT_PORT[server.protocol]
  const bracketed = name.includes(':') ? `[${name}]` : name
  const sent = httpRequest({
    createConnection: () => upstream,
    method: body === undefined ? 'GET' : 'POST',
    path: `${server.basePath}${pathOf(endpoint)}`,
    setHost: false,
    maxHeaderSize: headerBytes,
    headers: [
      ...['Host', isDefault ? bracketed : withPort(bracketed, server.target.port)],
      ...headers,
      ...(body === undefined ? [] : ['Content-Type', 'application/json', 'Content-Length', `${body.length}`]),
      ...['Accept-Encoding', 'identity', 'Connection', 'close'],
    ],
  })
  const fail = (error: Error) => {
    sent.destroy()
    reject(error)
  }
  const gone = () => fail(new RequestFailed('the model server ended the connection'))
  sent.on('error', gone)
  sent.on('upgrade', (_answer, upgraded) => {
    upgraded.destroy()
    fail(new RequestFailed('the model server changed the protocol'))
  })
  sent.on('response', (answer) => {
    answer.on('error', gone)
    sending.account?.answered(answer)
    const fault = faultOf(answer, sending.guard)
    if (fault) fail(fault)
    else passOn(answer, response, { ...sending, fail })
  })
  response.once('close', () => {
    sent.destroy()
    resolve()
  })
  sending.account?.sent()
  sent.end(body)
  return promise
}

function faultOf(answer: IncomingMessage, guard: AnswerGuard | undefined): Error | undefined {
  const { statusCode = 0 } = answer
  const fault = answerFault(answer)
  if (fault !== undefined) return new RequestFailed(`the answer of the model server cannot be read: ${fault}`)
  const refusal = guard?.headerFault(answer)
  if (refusal) return new RequestRefused(refusal)
  // The SDK would follow it, with the conversation in the body.
  if (statusCode >= 300 && statusCode < 400) return new RequestRefused(REDIRECTS)
  return undefined
}

const REDIRECTS = {
  rule: 'model',
  reason: 'the model server redirects to another address, and redirects are not followed',
  remedy: 'The operator can set the base URL of the model to the final address.',
} as const

function passOn(
  answer: IncomingMessage,
  response: ServerResponse,
  { guard, account, fail }: Pick<Exchange, 'guard' | 'account'> & { readonly fail: (error: Error) => void },
): void {
  const body: Readable = guard?.body(answer) ?? answer
  if (account) body.on('data', (chunk: Buffer) => account.read(chunk)).once('end', () => account.ended())
  body.on('error', (error) =>
    fail(
      error instanceof CredentialEchoed
        ? new RequestRefused(ECHOED)
        : new RequestFailed('the model server ended the answer'),
    ),
  )
  const headers = pairs(answer.rawHeaders).filter(([name]) => PASSED.test(name.toLowerCase()))
  // Without the reason phrase, which may contain characters that Node does not send.
  response.writeHead(answer.statusCode ?? 502, headers.flat())
  response.flushHeaders()
  body.pipe(response)
}
