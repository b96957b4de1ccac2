import { type CallDecision, DECISION_LIMITS, type DecisionsReply } from '../../../contracts/decisions.ts'

/** How a call was decided, in the end. `unanswered` is a denial: nobody decided in time. */
export type FinalDecision = {
  readonly outcome: Exclude<CallDecision['outcome'], 'pending'> | 'unanswered'
  readonly reason?: string | undefined
  readonly value?: string | undefined
}

type Call = {
  final?: FinalDecision
  waitUntilMs: number
  settle?: (decision: FinalDecision) => void
  timer?: NodeJS.Timeout
}

/**
 * The one place where a call meets its decision. The first final outcome of a call stands; decisions for calls
 * that were not made yet are kept, bounded; silence is a denial.
 */
export function createDecisionTable(options: { timeoutMs: number; now?: () => number }) {
  const now = options.now ?? Date.now
  const calls = new Map<string, Call>()
  const early = new Map<string, CallDecision>()

  function settle(call: Call, decision: FinalDecision): void {
    call.final = decision
    clearTimeout(call.timer)
    call.settle?.(decision)
  }

  function arm(call: Call, untilMs: number): void {
    call.waitUntilMs = Math.max(call.waitUntilMs, untilMs)
    clearTimeout(call.timer)
    const wait = Math.min(Math.max(call.waitUntilMs - now(), 0), 2_147_000_000)
    call.timer = setTimeout(() => {
      if (now() < call.waitUntilMs) arm(call, call.waitUntilMs)
      else settle(call, { outcome: 'unanswered', reason: 'nobody decided in time' })
    }, wait)
  }

  function keepEarly(decision: CallDecision): void {
    if (early.get(decision.callId) && early.get(decision.callId)?.outcome !== 'pending') return
    const oldest = early.keys().next()
    if (early.size >= DECISION_LIMITS.earlyDecisions && !oldest.done) early.delete(oldest.value)
    early.set(decision.callId, decision)
  }

  /** `accepted` also where the same final outcome comes again. */
  function apply(call: Call, decision: CallDecision): 'accepted' | 'conflicting' {
    if (call.final) return call.final.outcome === decision.outcome ? 'accepted' : 'conflicting'
    if (decision.outcome === 'pending') {
      const until = decision.until === undefined ? now() : Date.parse(decision.until)
      arm(call, until + options.timeoutMs)
    } else {
      settle(call, { outcome: decision.outcome, reason: decision.reason, value: decision.value })
    }
    return 'accepted'
  }

  return {
    /** Waits for the final decision of a call; an abort ends the wait with the signal's reason. */
    expect(callId: string, signal: AbortSignal): Promise<FinalDecision> {
      const { promise, resolve, reject } = Promise.withResolvers<FinalDecision>()
      if (signal.aborted) return Promise.reject(signal.reason)
      const call: Call = { waitUntilMs: now() + options.timeoutMs, settle: resolve }
      calls.set(callId, call)
      arm(call, call.waitUntilMs)
      signal.addEventListener(
        'abort',
        () => {
          clearTimeout(call.timer)
          call.final ??= { outcome: 'superseded', reason: 'cancelled' }
          reject(signal.reason)
        },
        { once: true },
      )
      const known = early.get(callId)
      early.delete(callId)
      if (known) apply(call, known)
      return promise
    },

    decide(decisions: readonly CallDecision[]): DecisionsReply {
      const reply: DecisionsReply = { accepted: [], unknown: [], conflicting: [] }
      for (const decision of decisions) {
        const call = calls.get(decision.callId)
        if (!call) keepEarly(decision)
        reply[call ? apply(call, decision) : 'unknown'].push(decision.callId)
      }
      return reply
    },

    /** Calls that wait for a decision. */
    open: (): string[] => [...calls].filter(([, call]) => !call.final).map(([callId]) => callId),

    close(): void {
      for (const call of calls.values()) clearTimeout(call.timer)
    },
  }
}

export type DecisionTable = ReturnType<typeof createDecisionTable>
