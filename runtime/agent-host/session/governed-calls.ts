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
 * Limit of a call's arguments in characters of JSON. The API ends a run whose sandbox sends an event of more than
 * 34,000,000 characters; the difference is left for the other fields of the announcement.
 */
const MAX_ARGUMENTS = 33_554_432

const TOO_LARGE = {
  code: 'arguments_too_large',
  message:
    `The arguments of this call have more than ${MAX_ARGUMENTS} characters of JSON, so it did not run. ` +
    'Make smaller calls: write a large file in parts.',
}

type GovernedDecision = { readonly verdict: Verdict; readonly reasons: readonly string[] }

type Shown = { readonly request: unknown; readonly redacted?: true; readonly rawDigest?: string }

/** `run` only performs the call. `GovernedCalls` adds governance, the decision, and redaction. */
export type GovernedCallDeps = {
  readonly decide: (request: { tool: string; arguments: unknown }) => GovernedDecision
  /** Called when a call is released, so that the tracker records the files and hosts that the run has touched. */
  readonly onReleased: (call: ToolCall) => void
  readonly redact: <T>(value: T) => { value: T; changed: boolean }
  readonly run: (call: ToolCall, io: CallIo & { answer?: string }) => Promise<ToolOutcome>
  readonly outbox: Outbox
  readonly decisions: DecisionTable
  /** HMAC key. The API uses the digest to bind an approval to a request whose arguments were redacted. */
  readonly digestKey: Uint8Array
  readonly now: () => number
}

export type CallIo = { readonly taskId?: string | undefined; readonly signal: AbortSignal }

/** The message that the agent gets for a call that was not released. */
const REFUSALS: Record<
  Exclude<FinalDecision['outcome'], 'release' | 'answer'>,
  { code: string; text: string }
> = {
  denied: { code: 'denied', text: 'A person denied this call' },
  expired: {
    code: 'expired',
    text: 'The approval request expired without an answer; this is not a denial',
  },
  superseded: { code: 'superseded', text: 'The approval request was superseded by a later event' },
  policyDenied: { code: 'policyDenied', text: 'The policy of this run refuses this call' },
  unanswered: { code: 'denied', text: 'The control plane did not release this call in time' },
}

/**
 * Takes every tool call through governance in the sandbox, the announcement, the control plane's decision, execution,
 * redaction, and the result event. No call runs before the control plane has released it.
 */
export class GovernedCalls {
  readonly #deps: GovernedCallDeps
  /** The open calls and their ids. */
  readonly #open = new Map<Promise<ToolOutcome>, string>()

  constructor(deps: GovernedCallDeps) {
    this.#deps = deps
  }

  /** Never throws: for a call that did not run, the outcome holds the error for the agent. */
  call(call: ToolCall, io: CallIo): Promise<ToolOutcome> {
    const outcome = this.#carryOut(call, io)
    this.#open.set(outcome, call.callId)
    return outcome.finally(() => this.#open.delete(outcome))
  }

  /** Records a malformed call: announces it as denied without asking for a decision or running it. */
  reject(call: ToolCall, io: CallIo, error: CallError): Promise<ToolOutcome> {
    const outcome = this.#reject(call, io, error)
    this.#open.set(outcome, call.callId)
    return outcome.finally(() => this.#open.delete(outcome))
  }

  /** Resolves when no call is open any more. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.#open.keys())
  }

  /** Ids of the open calls. Undefined unless there are some and each of them waits for a decision. */
  get waiting(): readonly string[] | undefined {
    const ids = [...this.#open.values()]
    return ids.length > 0 && ids.every((id) => this.#deps.decisions.isPending(id)) ? ids : undefined
  }

  async #carryOut(call: ToolCall, io: CallIo): Promise<ToolOutcome> {
    const { decide, decisions } = this.#deps
    try {
      // Checked first, because governance and redaction of huge arguments would cost time and memory.
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

  /** The redacted arguments for the announcement. */
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

/** Whether a value fits into an announcement. A value nested too deeply for `JSON.stringify` does not. */
function fitsEvent(value: unknown): boolean {
  try {
    return (JSON.stringify(value) ?? '').length <= MAX_ARGUMENTS
  } catch (error) {
    if (error instanceof RangeError) return false
    throw error
  }
}

export const idsOf = ({ callId }: ToolCall, { taskId }: CallIo): EventIds => ({
  callId,
  ...present({ taskId }),
})
