import { EGRESS_RETRY_AFTER_SECONDS } from '../../contracts/egress.ts'
import { delay } from '../kit/deadline.ts'

/** Why a request to the model waits. */
export interface ModelWait {
  /** A person has frozen the run. The request waits until the restriction is lifted, or the turn ends. */
  readonly isFrozen: boolean
  readonly reason: string
  /** The request has waited for this reason before. */
  readonly isRepeated: boolean
}

/** Called before each wait. Returns the function that ends the wait. */
export type OnModelWait = (wait: ModelWait) => () => void

/** An answer of the egress proxy, or of a model server behind it. */
export interface BusyAnswer {
  readonly status: number
  readonly retryAfter: string | null
  /** From headers that only the proxy sends: a model server cannot keep a turn waiting without a limit. */
  readonly rule: string | null
  readonly sentence: string | null
}

/** One attempt of a request. `take` returns or throws its result. */
export interface Attempt<T> {
  readonly busy: BusyAnswer
  readonly take: () => T
}

type Wait = Omit<ModelWait, 'isRepeated'> & { readonly ms: number }

/** For how long requests wait for a proxy or a model server that asks them to. */
export const PATIENCE_MS = 300_000
const MIN_WAIT_MS = 1_000
/** Waits become longer by up to this part, so that the agents of many sandboxes do not return at the same time. */
const JITTER = 0.2
/** A busy response later than this after the last wait begins a new outage. */
const SAME_OUTAGE_MS = 60_000
const BUSY: ReadonlySet<number> = new Set([429, 503])

interface PatienceOptions {
  readonly onWait: OnModelWait
  /** @default monotonic time, in milliseconds */
  readonly now?: () => number
}

/** Decides whether a request waits, for all requests of one agent. */
export class Patience {
  readonly #onWait: OnModelWait
  readonly #now: () => number
  /** The time since which responses ask to wait, and the end of the last wait. */
  #outage: { readonly since: number; readonly until: number } | undefined

  constructor({ onWait, now = () => performance.now() }: PatienceOptions) {
    this.#onWait = onWait
    this.#now = now
  }

  /** Repeats the request while the response asks to wait, for at most `PATIENCE_MS`. `take` returns the last response. */
  async until<T>(ask: () => Promise<Attempt<T>>, signal: AbortSignal): Promise<T> {
    // Limits this request alone: other requests can begin a new outage, which extends the common limit.
    let since: number | undefined
    for (let last: Wait | undefined; ; ) {
      const { busy, take } = await ask()
      const wait = this.#waitAfter(busy)
      if (!wait) return take()
      since = wait.isFrozen ? undefined : (since ?? this.#now())
      if (since !== undefined && this.#now() + wait.ms > since + PATIENCE_MS) return take()
      const { ms, ...why } = wait
      const end = this.#onWait({ ...why, isRepeated: last?.isFrozen === wait.isFrozen })
      last = wait
      try {
        await delay(ms, signal)
      } finally {
        end()
      }
    }
  }

  #waitAfter({ status, retryAfter, rule, sentence }: BusyAnswer): Wait | undefined {
    const asked = BUSY.has(status) ? retryAfterMs(retryAfter) : undefined
    const isFrozen = status === 503 && rule === 'restricted'
    if (asked === undefined || isFrozen) this.#outage = undefined
    if (asked === undefined) return undefined
    const ms = Math.max(asked, MIN_WAIT_MS) * (1 + Math.random() * JITTER)
    const reason = sentence ?? `its server asks to try again later (HTTP ${status}).`
    return isFrozen || this.#isPatient(ms) ? { isFrozen, ms, reason } : undefined
  }

  #isPatient(ms: number): boolean {
    const now = this.#now()
    const { since, until } = this.#outage ?? { since: now, until: now }
    const begun = now > until + SAME_OUTAGE_MS ? now : since
    if (now + ms > begun + PATIENCE_MS) return false
    this.#outage = { since: begun, until: Math.max(until, now + ms) }
    return true
  }
}

/** No connection could be opened, so nothing was sent. A replica of the proxy without a lease is not in its Service. */
export const notConnected = (error: unknown): Attempt<never> => ({
  busy: {
    ...{ status: 503, retryAfter: `${EGRESS_RETRY_AFTER_SECONDS}`, rule: null },
    sentence: 'no connection to the egress proxy could be opened.',
  },
  take() {
    throw error
  },
})

/** Seconds or a date of HTTP. Undefined if the header is absent or is neither. */
function retryAfterMs(header: string | null): number | undefined {
  if (header === null) return undefined
  if (/^\d+$/.test(header)) return Number(header) * 1000
  const ms = /GMT$/.test(header) ? Date.parse(header) - Date.now() : Number.NaN
  return Number.isNaN(ms) ? undefined : Math.max(ms, 0)
}
