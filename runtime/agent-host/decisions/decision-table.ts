import type { CallDecision, DecisionsReply } from '../../../contracts/decisions.ts'
import { DECISION_LIMITS } from '../../../contracts/limits.ts'

/** The final decision of a call. `unanswered` means that no decision arrived in time; it counts as a denial. */
export type FinalDecision = {
  readonly outcome: Exclude<CallDecision['outcome'], 'pending'> | 'unanswered'
  readonly reason?: string | undefined
  readonly value?: string | undefined
}

type Call = {
  /** Whether the control plane has reported that a person has to decide. */
  isPending?: boolean
  final?: FinalDecision
  waitUntilMs: number
  readonly settle: (decision: FinalDecision) => void
  timer?: NodeJS.Timeout
}

/** `setTimeout` accepts at most 2^31 - 1 ms. */
const MAX_TIMER_MS = 2_147_000_000

export type DecisionTableOptions = {
  /** A call without a decision for this long is denied. `pending` extends the wait past the approval deadline. */
  readonly timeoutMs: number
  readonly now?: () => number
}

/**
 * Matches calls with their decisions. The first final outcome of a call counts. A bounded number of decisions that arrive
 * before their call is kept. A call without a decision is denied after the timeout.
 */
export class DecisionTable {
  readonly #timeoutMs: number
  readonly #now: () => number
  readonly #calls = new Map<string, Call>()
  readonly #early = new Map<string, CallDecision>()

  constructor({ timeoutMs, now = Date.now }: DecisionTableOptions) {
    this.#timeoutMs = timeoutMs
    this.#now = now
  }

  /** Waits for the final decision of a call; an abort ends the wait with the signal's reason. */
  expect(callId: string, signal: AbortSignal): Promise<FinalDecision> {
    if (signal.aborted) return Promise.reject(signal.reason)
    const { promise, resolve, reject } = Promise.withResolvers<FinalDecision>()
    const call: Call = { waitUntilMs: this.#now() + this.#timeoutMs, settle: resolve }
    this.#calls.set(callId, call)
    this.#arm(call)
    const onAbort = () => {
      clearTimeout(call.timer)
      call.final ??= { outcome: 'superseded', reason: 'cancelled' }
      reject(signal.reason)
    }
    signal.addEventListener('abort', onAbort, { once: true })
    const known = this.#early.get(callId)
    this.#early.delete(callId)
    if (known) this.#apply(call, known)
    return promise.finally(() => signal.removeEventListener('abort', onAbort))
  }

  /** Whether a call waits for a decision that may take long, because a person has to make it. */
  isPending(callId: string): boolean {
    const call = this.#calls.get(callId)
    return call?.isPending === true && call.final === undefined
  }

  decide(decisions: readonly CallDecision[]): DecisionsReply {
    const reply: DecisionsReply = { accepted: [], unknown: [], conflicting: [] }
    for (const decision of decisions) {
      const call = this.#calls.get(decision.callId)
      if (!call) this.#keepEarly(decision)
      reply[call ? this.#apply(call, decision) : 'unknown'].push(decision.callId)
    }
    return reply
  }

  close(): void {
    for (const call of this.#calls.values()) clearTimeout(call.timer)
  }

  /** Returns `accepted` also for a repetition of the same final outcome. */
  #apply(call: Call, decision: CallDecision): 'accepted' | 'conflicting' {
    if (call.final) return call.final.outcome === decision.outcome ? 'accepted' : 'conflicting'
    if (decision.outcome === 'pending') {
      call.isPending = true
      const until = decision.until === undefined ? this.#now() : Date.parse(decision.until)
      call.waitUntilMs = Math.max(call.waitUntilMs, until + this.#timeoutMs)
      this.#arm(call)
    } else {
      this.#settle(call, { outcome: decision.outcome, reason: decision.reason, value: decision.value })
    }
    return 'accepted'
  }

  #settle(call: Call, decision: FinalDecision): void {
    call.final = decision
    clearTimeout(call.timer)
    call.settle(decision)
  }

  #arm(call: Call): void {
    clearTimeout(call.timer)
    const wait = Math.min(Math.max(call.waitUntilMs - this.#now(), 0), MAX_TIMER_MS)
    call.timer = setTimeout(() => {
      if (this.#now() < call.waitUntilMs) this.#arm(call)
      else this.#settle(call, { outcome: 'unanswered', reason: 'no decision arrived in time' })
    }, wait)
  }

  /** Keeps the first final outcome here too. At the limit, the oldest entry is dropped. */
  #keepEarly(decision: CallDecision): void {
    const known = this.#early.get(decision.callId)
    if (known && known.outcome !== 'pending') return
    const oldest = this.#early.keys().next()
    if (this.#early.size >= DECISION_LIMITS.earlyDecisions && !oldest.done) this.#early.delete(oldest.value)
    this.#early.set(decision.callId, decision)
  }
}
