import { type CopilotRequestContext, CopilotRequestHandler } from '@github/copilot-sdk'
import { EGRESS_REASON_HEADER, EGRESS_RULE_HEADER } from '../../../contracts/egress.ts'
import { delay } from '../../kit/deadline.ts'
import type { ModelProxy } from './model-config.ts'

/** Why a request waits. */
export interface ModelWait {
  /** A person has frozen the run. The request waits until the restriction is lifted, or the turn ends. */
  readonly isFrozen: boolean
  readonly reason: string
  /** The request has waited for this reason before. */
  readonly isRepeated: boolean
}

type Wait = Omit<ModelWait, 'isRepeated'> & { readonly ms: number }

export interface ModelRequestsOptions {
  readonly proxy: ModelProxy
  /** Called before each wait of a request. Returns the function that ends the wait. */
  readonly onWait: (wait: ModelWait) => () => void
  /** @default monotonic time, in milliseconds */
  readonly now?: () => number
}

/** For how long the requests wait for a proxy or a model server that asks them to. */
export const PATIENCE_MS = 300_000
const MIN_WAIT_MS = 1_000
/** Waits become longer by up to this part, so that the agents of many sandboxes do not return at the same time. */
const JITTER = 0.2
const BUSY: ReadonlySet<number> = new Set([429, 503])

/**
 * Sends the requests of the agent runtime to the egress proxy. The runtime repeats a request for about 30 s after 503. A
 * replica of the proxy may need longer until the API renews its lease, and a frozen run has no model for as long as a person
 * wants. A request is repeated here only if nothing of an answer has reached the runtime.
 */
export class ModelRequests extends CopilotRequestHandler {
  readonly #options: ModelRequestsOptions
  readonly #now: () => number
  /** The first answer of those that asked to wait, since the last other answer. */
  #busySince: number | undefined

  constructor(options: ModelRequestsOptions) {
    super()
    this.#options = options
    this.#now = options.now ?? (() => performance.now())
  }

  override async sendRequest(
    request: Request,
    { signal }: Pick<CopilotRequestContext, 'signal'>,
  ): Promise<Response> {
    const { proxy } = this.#options
    if (!request.url.startsWith(`${proxy.baseUrl}/`))
      throw new Error('The agent runtime may send requests only to its model')
    const body = request.body === null ? undefined : await request.arrayBuffer()
    for (let last: Wait | undefined; ; ) {
      const headers = new Headers(request.headers)
      headers.set('authorization', `Bearer ${await proxy.fetchToken()}`)
      const { url, method } = request
      const sent = { method, headers, redirect: 'manual', signal, ...(body && { body }) } as const
      const response = await fetch(url, sent)
      const wait = this.#waitFor(response)
      if (!wait) return response
      await response.body?.cancel()
      await this.#wait(wait, { isRepeated: last?.isFrozen === wait.isFrozen, signal })
      last = wait
    }
  }

  /** The proxy serves no websockets. */
  override openWebSocket(): Promise<never> {
    return Promise.reject(new Error('The egress proxy has no websockets to models'))
  }

  /** Undefined if the runtime gets the response. */
  #waitFor({ status, headers }: Response): Wait | undefined {
    const asked = BUSY.has(status) ? retryAfterMs(headers.get('retry-after')) : undefined
    if (asked === undefined) {
      this.#busySince = undefined
      return undefined
    }
    const ms = Math.max(asked, MIN_WAIT_MS) * (1 + Math.random() * JITTER)
    const sentence = headers.get(EGRESS_REASON_HEADER)
    // Only the proxy sends these headers. A model server cannot keep a turn waiting without a limit.
    const isFrozen = status === 503 && headers.get(EGRESS_RULE_HEADER) === 'restricted'
    if (isFrozen) {
      this.#busySince = undefined
      return { isFrozen, ms, reason: sentence ?? '' }
    }
    const now = this.#now()
    this.#busySince ??= now
    if (now + ms > this.#busySince + PATIENCE_MS) return undefined
    return { isFrozen, ms, reason: sentence ?? `its server asks to try again later (HTTP ${status}).` }
  }

  async #wait(
    { ms, ...wait }: Wait,
    { isRepeated, signal }: { readonly isRepeated: boolean; readonly signal: AbortSignal },
  ): Promise<void> {
    const end = this.#options.onWait({ ...wait, isRepeated })
    try {
      await delay(ms, signal)
    } finally {
      end()
    }
  }
}

/** Seconds or a date. Undefined if the header is absent or is neither. */
function retryAfterMs(header: string | null): number | undefined {
  if (header === null || header.trim() === '') return undefined
  const seconds = Number(header)
  const ms = Number.isNaN(seconds) ? Date.parse(header) - Date.now() : seconds * 1000
  return Number.isFinite(ms) ? Math.max(ms, 0) : undefined
}
