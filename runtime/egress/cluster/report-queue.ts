import type { EgressRunReport } from '../../../contracts/egress.ts'
import type { EgressReportBatch } from '../../../contracts/egress-control.ts'
import { EGRESS_CONTROL_ROUTES } from '../../../contracts/routes.ts'
import { delay } from '../../kit/deadline.ts'
import { messageOf } from '../../kit/errors.ts'
import type { Log } from '../../kit/log.ts'
import { type ControlPlace, postControl } from './control-request.ts'

export interface ReportQueueOptions extends ControlPlace {
  /** Identifies this process of the proxy. */
  readonly proxy: string
  readonly onDropped: () => void
  readonly log: Log
}

/** Reports of one moment travel together. */
const GATHER_MS = 200
const BATCH = 256
/** Reports that wait while the API cannot be reached. The oldest are dropped first. */
const MAX_WAITING = 20_000
const RETRY_MS = { first: 200, longest: 5_000 } as const
const POST_MS = 10_000

/** Sends reports to the API in their order, and again until the API has accepted them. */
export class ReportQueue {
  readonly #options: ReportQueueOptions
  readonly #stop = new AbortController()
  #waiting: EgressRunReport[] = []
  /** Number of the first report that waits. */
  #first = 1
  #sending: Promise<void> | undefined

  constructor(options: ReportQueueOptions) {
    this.#options = options
  }

  get length(): number {
    return this.#waiting.length
  }

  add(report: EgressRunReport): void {
    if (this.#waiting.length >= MAX_WAITING) {
      this.#waiting.shift()
      this.#first += 1
      this.#options.onDropped()
    }
    this.#waiting.push(report)
    this.#sending ??= this.#send().finally(() => {
      this.#sending = undefined
    })
  }

  /** Resolves when everything is sent, or after `ms`. */
  async close(ms: number): Promise<void> {
    const timer = setTimeout(() => this.#stop.abort(), ms)
    await this.#sending
    clearTimeout(timer)
    this.#stop.abort()
  }

  async #send(): Promise<void> {
    const { log } = this.#options
    const { signal } = this.#stop
    let retryMs: number = RETRY_MS.first
    try {
      await delay(GATHER_MS, signal)
      while (this.#waiting.length > 0) {
        const first = this.#first
        const reports = this.#waiting.slice(0, BATCH)
        try {
          await this.#post({ proxy: this.#options.proxy, first, reports }, signal)
          retryMs = RETRY_MS.first
          // The queue may have dropped some of them during the request.
          const sent = Math.max(0, first + reports.length - this.#first)
          this.#waiting = this.#waiting.slice(sent)
          this.#first += sent
        } catch (error) {
          signal.throwIfAborted()
          log.warn('reports could not be sent and are sent again', { error: messageOf(error) })
          await delay(retryMs, signal)
          retryMs = Math.min(retryMs * 2, RETRY_MS.longest)
        }
      }
    } catch (error) {
      if (!signal.aborted) throw error
    }
  }

  async #post(batch: EgressReportBatch, stop: AbortSignal): Promise<void> {
    const signal = AbortSignal.any([stop, AbortSignal.timeout(POST_MS)])
    await postControl(this.#options, {
      path: EGRESS_CONTROL_ROUTES.events,
      ...{ sent: batch, signal, expected: [204] },
    })
  }
}
