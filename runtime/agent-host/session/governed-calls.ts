import { createHmac } from 'node:crypto'
import type { Verdict } from '../../../contracts/policy.ts'
import type { ToolOutcome } from '../../../contracts/tools.ts'
import { canonicalJson } from '../../kit/canonical-json.ts'
import { messageOf } from '../../kit/errors.ts'
import type { DecisionTable, FinalDecision } from '../decisions/decision-table.ts'
import type { EventIds, Outbox } from '../outbox.ts'

export type ToolCall = { readonly callId: string; readonly tool: string; readonly arguments: unknown }

/** What governs and runs a call. `run` is a pure effect; governance, decision and redaction wrap it here. */
export type GovernedCallDeps = {
  readonly decide: (request: { tool: string; arguments: unknown }) => {
    verdict: Verdict
    reasons: readonly string[]
  }
  /** Tells the tracker of what the run has touched that a call was released. */
  readonly onReleased: (call: ToolCall) => void
  readonly redact: <T>(value: T) => { value: T; changed: boolean }
  readonly run: (call: ToolCall, io: { signal: AbortSignal; answer?: string }) => Promise<ToolOutcome>
  readonly outbox: Outbox
  readonly decisions: DecisionTable
  /** Key of the digest by which the API can bind an approval to a request that redaction changed. */
  readonly digestKey: Uint8Array
  readonly now: () => number
}

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
export function createGovernedCalls(deps: GovernedCallDeps) {
  const { outbox, decisions } = deps

  async function announce(
    call: ToolCall,
    taskId: string | undefined,
    decision: ReturnType<typeof deps.decide>,
  ) {
    const { value: request, changed } = deps.redact(call.arguments)
    const digest = () =>
      createHmac('sha256', deps.digestKey).update(canonicalJson(call.arguments)).digest('hex')
    await outbox.emit(
      {
        type: 'tool.call',
        data: {
          callId: call.callId,
          tool: call.tool,
          request,
          verdict: decision.verdict,
          reasons: [...decision.reasons],
          ...(changed && { redacted: true, rawDigest: digest() }),
        },
      },
      idsOf(call, taskId),
    )
  }

  async function refuse(
    call: ToolCall,
    taskId: string | undefined,
    error: { code: string; message: string },
  ) {
    const { value: message } = deps.redact(error.message)
    await outbox.emit(
      { type: 'tool.error', data: { callId: call.callId, tool: call.tool, code: error.code, message } },
      idsOf(call, taskId),
    )
    return { ok: false, code: error.code, message } as const
  }

  async function act(call: ToolCall, io: CallIo, answer?: string): Promise<ToolOutcome> {
    const startedAt = deps.now()
    const raw = await deps.run(call, { signal: io.signal, ...(answer !== undefined && { answer }) })
    const { value: outcome } = deps.redact(raw)
    await outbox.emit(
      {
        type: 'tool.result',
        data: { callId: call.callId, tool: call.tool, outcome, durationMs: deps.now() - startedAt },
      },
      idsOf(call, io.taskId),
    )
    return outcome
  }

  async function settle(call: ToolCall, io: CallIo, decision: FinalDecision): Promise<ToolOutcome> {
    if (decision.outcome === 'answer') return act(call, io, decision.value ?? '')
    if (decision.outcome === 'release') {
      deps.onReleased(call)
      return act(call, io)
    }
    const { code, text } = REFUSALS[decision.outcome]
    return refuse(call, io.taskId, {
      code,
      message: decision.reason ? `${text}: ${decision.reason}` : `${text}.`,
    })
  }

  return {
    /** Always answers: what the agent reads when the call did not run is an outcome too. */
    async call(call: ToolCall, io: CallIo): Promise<ToolOutcome> {
      try {
        const decision = deps.decide({ tool: call.tool, arguments: call.arguments })
        if (decision.verdict === 'deny') {
          await announce(call, io.taskId, decision)
          const { text, code } = REFUSALS.policyDenied
          return await refuse(call, io.taskId, { code, message: `${text}: ${decision.reasons.join('; ')}` })
        }
        const answered = decisions.expect(call.callId, io.signal)
        answered.catch(() => undefined)
        await announce(call, io.taskId, decision)
        return await settle(call, io, await answered)
      } catch (error) {
        const code = io.signal.aborted ? 'cancelled' : 'failed'
        return refuse(call, io.taskId, { code, message: messageOf(error) })
      }
    },
  }
}

const idsOf = (call: ToolCall, taskId: string | undefined): EventIds => ({
  ...(taskId && { taskId }),
  callId: call.callId,
})

export type CallIo = { readonly taskId?: string | undefined; readonly signal: AbortSignal }
export type GovernedCalls = ReturnType<typeof createGovernedCalls>
