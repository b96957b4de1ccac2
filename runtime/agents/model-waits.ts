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

type Wait = Omit<ModelWait, 'isRepeated'> & { readonly ms: number }

/** For how long requests wait for a proxy or a model server that asks them to. */
export const PATIENCE_MS = 300_000
const MIN_WAIT_MS = 1_000
/** Waits become longer by up to this part, so that the agents of many sandboxes do not return at the same time. */
const JITTER = 0.2
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
  /** The first answer of those that asked to wait, since the last other answer. */
  #busySince: number | undefined

  constructor({ onWait, now = () => performance.now() }: PatienceOptions) {
    this.#onWait = onWait
    this.#now = now
  }

  /** Makes a request until its answer does not ask to wait, or the patience ends. `ask` reads nothing of a busy answer. */
  async until<T>(ask: () => Promise<{ readonly busy: BusyAnswer; readonly answer: T }>, signal: AbortSignal) {
    for (let last: Wait | undefined; ; ) {
      const { busy, answer } = await ask()
      const wait = this.#waitAfter(busy)
      if (!wait) return answer
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
    if (asked === undefined) {
      this.#busySince = undefined
      return undefined
    }
    const ms = Math.max(asked, MIN_WAIT_MS) * (1 + Math.random() * JITTER)
    const isFrozen = status === 503 && rule === 'restricted'
    if (isFrozen) {
      this.#busySince = undefined
      return { isFrozen, ms, reason: sentence ?? '' }
    }
    const now = this.#now()
    this.#busySince ??= now
    if (now + ms > this.#busySince + PATIENCE_MS) return undefined
    return { isFrozen, ms, reason: sentence ?? `its server asks to try again later (HTTP ${status}).` }
  }
}

/** Seconds or a date. Undefined if the header is absent or is neither. */
function retryAfterMs(header: string | null): number | undefined {
  if (header === null || header.trim() === '') return undefined
  const seconds = Number(header)
  const ms = Number.isNaN(seconds) ? Date.parse(header) - Date.now() : seconds * 1000
  return Number.isFinite(ms) ? Math.max(ms, 0) : undefined
}
