import { type CopilotRequestContext, CopilotRequestHandler } from '@github/copilot-sdk'
import { EGRESS_REASON_HEADER, EGRESS_RULE_HEADER } from '../../../contracts/egress.ts'
import { errnoOf } from '../../kit/errors.ts'
import { type Attempt, notConnected, type OnModelWait, Patience } from '../model-waits.ts'
import { type KeepOpenTimes, keptOpen } from './kept-open.ts'
import type { ModelProxy } from './model-config.ts'

export interface ModelRequestsOptions {
  readonly proxy: ModelProxy
  readonly onWait: OnModelWait
  /** Aborted when the agent runtime ends, because it then cancels no request itself. */
  readonly gone: AbortSignal
  /** @default monotonic time, in milliseconds */
  readonly now?: () => number
  readonly keepOpen?: KeepOpenTimes
}

/**
 * Sends the requests of the agent runtime to the egress proxy. The runtime repeats a request for about 30 s after 503. A
 * replica of the proxy may need longer until the API renews its lease, and a frozen run cannot call its model until a person
 * lifts the restriction. A request is repeated only before the first byte of a response has reached the runtime.
 */
export class ModelRequests extends CopilotRequestHandler {
  readonly #proxy: ModelProxy
  readonly #patience: Patience
  readonly #keepOpen: KeepOpenTimes | undefined
  readonly #gone: AbortSignal

  constructor({ proxy, keepOpen, gone, ...rest }: ModelRequestsOptions) {
    super()
    this.#proxy = proxy
    this.#keepOpen = keepOpen
    this.#gone = gone
    this.#patience = new Patience(rest)
  }

  override async sendRequest(
    request: Request,
    context: Pick<CopilotRequestContext, 'signal'>,
  ): Promise<Response> {
    const { url, method } = request
    if (!url.startsWith(`${this.#proxy.baseUrl}/`))
      throw new Error('The agent runtime may send requests only to its model')
    const signal = AbortSignal.any([context.signal, this.#gone])
    const body = request.body === null ? undefined : Buffer.from(await request.arrayBuffer())
    const isStream = body !== undefined && isStreamed(body)
    let last: Response | undefined
    const send = async (): Promise<Attempt<Response>> => {
      await last?.body?.cancel()
      const headers = new Headers(request.headers)
      headers.set('authorization', `Bearer ${await this.#proxy.fetchToken()}`)
      try {
        const answer = await fetch(url, {
          method,
          headers,
          redirect: 'manual',
          signal,
          ...(body && { body }),
        })
        last = answer
        return { busy: busyAnswer(answer), take: () => answer }
      } catch (error) {
        if (isNotConnected(error)) return notConnected(error)
        throw error
      }
    }
    const answered = this.#patience.until(send, signal)
    return isStream ? keptOpen(answered, signal, this.#keepOpen) : answered
  }

  /** The proxy serves no websockets. */
  override openWebSocket(): Promise<never> {
    return Promise.reject(new Error('The egress proxy has no websockets to models'))
  }
}

function isStreamed(body: Buffer): boolean {
  const { stream } = JSON.parse(body.toString()) as { readonly stream?: unknown }
  return stream === true
}

const CONNECT_ERRORS = ['ECONNREFUSED', 'EHOSTUNREACH', 'ENETUNREACH', 'UND_ERR_CONNECT_TIMEOUT']

/** Whether the connection failed before anything was sent. */
const isNotConnected = (error: unknown): boolean =>
  error instanceof Error && CONNECT_ERRORS.includes(errnoOf(error.cause) ?? '')

const busyAnswer = ({ status, headers }: Response) => ({
  status,
  retryAfter: headers.get('retry-after'),
  rule: headers.get(EGRESS_RULE_HEADER),
  sentence: headers.get(EGRESS_REASON_HEADER),
})
