import { createHmac } from 'node:crypto'
import type { Verdict } from '../../../contracts/policy.ts'
import type { ToolOutcome } from '../../../contracts/tools.ts'
import type { CallError } from '../../agents/agent.ts'
import { canonicalJson } from '../../kit/canonical-json.ts'
import { messageOf } from '../../kit/errors.ts'
import { present } from '../../kit/present.ts'
import type { ToolCall } from '../../tools/tool.ts'
import type { DecisionTable, FinalDecision } from '../decisions/decision-table.ts'
import type { EventIds, Outbox } from '../outbox.ts'

/**
 * The longest arguments of a call, as characters of JSON. Their announcement is one event, and the API ends a run whose
 * sandbox sends an event of more than 34,000,000 characters; the rest of that is for the other fields of the event.
 */
const MAX_ARGUMENTS = 33_554_432

const TOO_LARGE = {
  code: 'arguments_too_large',
  message:
    `The arguments of this call have more than ${MAX_ARGUMENTS} characters of JSON, and nothing was done. ` +
    'Make smaller calls: write a large file in parts.',
}

type GovernedDecision = { readonly verdict: Verdict; readonly reasons: readonly string[] }

type Shown = { readonly request: unknown; readonly redacted?: true; readonly rawDigest?: string }

/** What governs and runs a call. `run` is a pure effect; governance, decision and redaction wrap it here. */
export type GovernedCallDeps = {
  readonly decide: (request: { tool: string; arguments: unknown }) => GovernedDecision
  /** Tells the tracker of what the run has touched that a call was released. */
  readonly onReleased: (call: ToolCall) => void
  readonly redact: <T>(value: T) => { value: T; changed: boolean }
  readonly run: (call: ToolCall, io: CallIo & { answer?: string }) => Promise<ToolOutcome>
  readonly outbox: Outbox
  readonly decisions: DecisionTable
  /** Key of the digest by which the API can bind an approval to a request that redaction changed. */
  readonly digestKey: Uint8Array
  readonly now: () => number
}

export type CallIo = { readonly taskId?: string | undefined; readonly signal: AbortSignal }

/** What the agent reads when a call was not released: five outcomes, five wordings. */
const REFUSALS: Record<
  Exclude<FinalDecision['outcome'], 'release' | 'answer'>,
  { code: string; text: string }
> = {
  denied: { code: 'denied', text: 'A person denied this call' },
  expired: {
    code: 'expired',
    text: 'Nobody answered the approval request before it expired; this is not a denial',
  },
  superseded: { code: 'superseded', text: 'The approval request was superseded by a later event' },
  policyDenied: { code: 'policyDenied', text: 'The policy of this run refuses this call' },
  unanswered: { code: 'denied', text: 'The control plane did not release this call in time' },
}

/**
 * The path of every tool call: governance inside the sandbox, the announcement, the decision of the control
 * plane, the effect, redaction, the result. Nothing acts before its announcement is answered with a release.
 */
export class GovernedCalls {
  readonly #deps: GovernedCallDeps
  readonly #open = new Set<Promise<ToolOutcome>>()

  constructor(deps: GovernedCallDeps) {
    this.#deps = deps
  }

  /** Always answers: what the agent reads when the call did not run is an outcome too. */
  call(call: ToolCall, io: CallIo): Promise<ToolOutcome> {
    const outcome = this.#carryOut(call, io)
    this.#open.add(outcome)
    return outcome.finally(() => this.#open.delete(outcome))
  }

  /** Records a call that is no call: it is announced as refused, and nothing is decided or run. */
  reject(call: ToolCall, io: CallIo, error: CallError): Promise<ToolOutcome> {
    const outcome = this.#reject(call, io, error)
    this.#open.add(outcome)
    return outcome.finally(() => this.#open.delete(outcome))
  }

  /** Settles when no call is open any more. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.#open)
  }

  async #carryOut(call: ToolCall, io: CallIo): Promise<ToolOutcome> {
    const { decide, decisions } = this.#deps
    try {
      // Before anything reads the arguments: governance and redaction would take time and memory for all of them.
      if (!fitsEvent(call.arguments)) return await this.#reject({ ...call, arguments: null }, io, TOO_LARGE)
      const shown = this.#show(call)
      if (!fitsEvent(shown.request)) return await this.#reject({ ...call, arguments: null }, io, TOO_LARGE)
      const decision = decide({ tool: call.tool, arguments: call.arguments })
      if (decision.verdict === 'deny') {
        await this.#announce(call, io, { ...shown, decision })
        return await this.#refuse(call, io, { outcome: 'policyDenied', reason: decision.reasons.join('; ') })
      }
      const answered = decisions.expect(call.callId, io.signal)
      answered.catch(() => undefined)
      await this.#announce(call, io, { ...shown, decision })
      return await this.#settle(call, io, await answered)
    } catch (error) {
      const code = io.signal.aborted ? 'cancelled' : 'failed'
      return this.#tellError(call, io, { code, message: messageOf(error) })
    }
  }

  async #reject(call: ToolCall, io: CallIo, error: CallError): Promise<ToolOutcome> {
    const reasons = [this.#deps.redact(error.message).value]
    await this.#announce(call, io, {
      ...this.#show(call),
      decision: { verdict: 'deny', reasons },
    })
    return this.#tellError(call, io, error)
  }

  /** The arguments as the announcement has them. */
  #show(call: ToolCall): Shown {
    const { redact, digestKey } = this.#deps
    const { value: request, changed } = redact(call.arguments)
    if (!changed) return { request }
    const rawDigest = createHmac('sha256', digestKey).update(canonicalJson(call.arguments)).digest('hex')
    return { request, redacted: true, rawDigest }
  }

  async #announce(
    call: ToolCall,
    io: CallIo,
    decided: Shown & { decision: GovernedDecision },
  ): Promise<void> {
    const { callId, tool } = call
    const { decision, ...shown } = decided
    const { verdict, reasons } = decision
    const data = { callId, tool, verdict, reasons: [...reasons], ...shown }
    await this.#deps.outbox.emit({ type: 'tool.call', data }, idsOf(call, io))
  }

  async #settle(call: ToolCall, io: CallIo, decision: FinalDecision): Promise<ToolOutcome> {
    if (decision.outcome === 'answer') return this.#act(call, io, decision.value ?? '')
    if (decision.outcome !== 'release')
      return this.#refuse(call, io, { ...decision, outcome: decision.outcome })
    this.#deps.onReleased(call)
    return this.#act(call, io)
  }

  async #act(call: ToolCall, io: CallIo, answer?: string): Promise<ToolOutcome> {
    const { run, redact, outbox, now } = this.#deps
    const { callId, tool } = call
    const startedAt = now()
    const raw = await run(call, { ...io, ...present({ answer }) })
    const { value: outcome } = redact(raw)
    const data = { callId, tool, outcome, durationMs: now() - startedAt }
    await outbox.emit({ type: 'tool.result', data }, idsOf(call, io))
    return outcome
  }

  #refuse(
    call: ToolCall,
    io: CallIo,
    refusal: { outcome: keyof typeof REFUSALS; reason?: string | undefined },
  ) {
    const { code, text } = REFUSALS[refusal.outcome]
    const message = refusal.reason ? `${text}: ${refusal.reason}` : `${text}.`
    return this.#tellError(call, io, { code, message })
  }

  async #tellError(call: ToolCall, io: CallIo, error: CallError): Promise<ToolOutcome> {
    const { callId, tool } = call
    const { value: message } = this.#deps.redact(error.message)
    await this.#deps.outbox.emit(
      { type: 'tool.error', data: { callId, tool, code: error.code, message } },
      idsOf(call, io),
    )
    return { ok: false, code: error.code, message }
  }
}

/** Whether a value fits into an announcement. One that is nested too deeply to be written as JSON does not. */
function fitsEvent(value: unknown): boolean {
  try {
    return (JSON.stringify(value) ?? '').length <= MAX_ARGUMENTS
  } catch (error) {
    if (error instanceof RangeError) return false
    throw error
  }
}

/** What the events of a call belong to. */
export const idsOf = ({ callId }: ToolCall, { taskId }: CallIo): EventIds => ({
  callId,
  ...present({ taskId }),
})
