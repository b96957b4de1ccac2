import { type CopilotRequestContext, CopilotRequestHandler } from '@github/copilot-sdk'
import { EGRESS_REASON_HEADER, EGRESS_RULE_HEADER } from '../../../contracts/egress.ts'
import { type OnModelWait, Patience } from '../model-waits.ts'
import { type KeepOpenTimes, keptOpen } from './kept-open.ts'
import type { ModelProxy } from './model-config.ts'

export interface ModelRequestsOptions {
  readonly proxy: ModelProxy
  readonly onWait: OnModelWait
  /** @default monotonic time, in milliseconds */
  readonly now?: () => number
  readonly keepOpen?: KeepOpenTimes
}

/**
 * Sends the requests of the agent runtime to the egress proxy. The runtime repeats a request for about 30 s after 503. A
 * replica of the proxy may need longer until the API renews its lease, and a frozen run has no model for as long as a person
 * wants. A request is repeated here only if nothing of an answer has reached the runtime.
 */
export class ModelRequests extends CopilotRequestHandler {
  readonly #proxy: ModelProxy
  readonly #patience: Patience
  readonly #keepOpen: KeepOpenTimes | undefined

  constructor({ proxy, keepOpen, ...rest }: ModelRequestsOptions) {
    super()
    this.#proxy = proxy
    this.#keepOpen = keepOpen
    this.#patience = new Patience(rest)
  }

  override async sendRequest(
    request: Request,
    { signal }: Pick<CopilotRequestContext, 'signal'>,
  ): Promise<Response> {
    const { url, method } = request
    if (!url.startsWith(`${this.#proxy.baseUrl}/`))
      throw new Error('The agent runtime may send requests only to its model')
    const body = request.body === null ? undefined : Buffer.from(await request.arrayBuffer())
    let last: Response | undefined
    const send = async () => {
      await last?.body?.cancel()
      const headers = new Headers(request.headers)
      headers.set('authorization', `Bearer ${await this.#proxy.fetchToken()}`)
      const answer = await fetch(url, { method, headers, redirect: 'manual', signal, ...(body && { body }) })
      last = answer
      return { busy: busyAnswer(answer), answer }
    }
    const answered = this.#patience.until(send, signal)
    return body && isStreamed(body) ? keptOpen(answered, signal, this.#keepOpen) : answered
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

const busyAnswer = ({ status, headers }: Response) => ({
  status,
  retryAfter: headers.get('retry-after'),
  rule: headers.get(EGRESS_RULE_HEADER),
  sentence: headers.get(EGRESS_REASON_HEADER),
})
