import { randomUUID } from 'node:crypto'
import type { CallDecision } from '../../../../contracts/decisions.ts'
import type { HostEvent, RunEvent } from '../../../../contracts/events.ts'
import type { Decision } from '../../../../contracts/policy.ts'
import { CONTROL_TOOL_ARGUMENTS, TOOL_ARGUMENTS } from '../../../../contracts/tools.ts'
import type { CallRow } from '../../../store/call-row.ts'
import type { ApprovalRow, RunRow, Transaction } from '../../../store/store.ts'
import type { AuditTrail } from '../audit-trail.ts'
import type { AgentCall, RunDeps, RunGovernance } from '../deps.ts'
import { refusedTool } from '../restrictions/refusals.ts'
import { approvalBinding, commandHash, showHidden } from './approval-binding.ts'
import { contributorsOf } from './contributors.ts'
import { needsAnotherPerson } from './four-eyes.ts'

export type CallEvent = Extract<HostEvent, { type: 'tool.call' }>['data']

/** What the control plane says to a call: events to store with it, and the decision to post once they are. */
export type GateAnswer = {
  readonly events: RunEvent[]
  readonly decision: CallDecision
  readonly approval?: ApprovalRow
}

const NO_SANDBOX = { isRealIsolation: false } as const

const REDACTED_CALLS_ONCE = 'this request holds something that is hidden; it can be approved once only'

/**
 * The control plane's word on a call of the agent, in the transaction that stores the call: governance again,
 * then a release, a refusal, or a request to a person. The audit intent is written here, before anything acts.
 */
export class Gate {
  readonly #governance: RunGovernance
  readonly #audit: AuditTrail
  readonly #clock: () => Date
  readonly #approvalTtlMs: number
  readonly #restrictions: RunDeps['restrictions']

  constructor(deps: RunDeps, audit: AuditTrail, governance: RunGovernance) {
    this.#governance = governance
    this.#audit = audit
    this.#clock = deps.clock
    this.#approvalTtlMs = deps.limits.approvalTtlMs
    this.#restrictions = deps.restrictions
  }

  /** `sequence`: of the event that announces the call. */
  async onCall(
    tx: Transaction,
    run: RunRow,
    { call, sequence }: { readonly call: CallEvent; readonly sequence: number },
  ): Promise<GateAnswer> {
    const asked = { tool: call.tool, arguments: call.request }
    const decision = this.#decide(run, asked)
    const answer = await this.#answer(tx, { run, call, decision })
    const { state, decision: word } = AFTERMATH[answer.decision.outcome] ?? AFTERMATH.policyDenied
    const at = this.#clock().toISOString()
    await this.#audit.append(tx, run.id, [
      {
        kind: 'intent',
        runId: run.id,
        callId: call.callId,
        actor: `agent:${run.agent.kind}`,
        tool: call.tool,
        params: call.request,
        policyVersion: run.policyVersion,
        decision: word,
        reasons: decision.reasons,
        ...(answer.approval && { approval: answer.approval.requestId }),
        at,
      },
    ])
    const row = {
      runId: run.id,
      callId: call.callId,
      tool: call.tool,
      state,
      decision: answer.decision,
      openedAt: at,
      request: call.request,
      sequence,
    }
    await tx.insertCall(row)
    return answer
  }

  /**
   * Judges a call again that waited in an earlier sandbox, because this sandbox may isolate less. Undefined if the policy
   * still permits it; then the decision of the person stands.
   */
  async refuseCarried(
    tx: Transaction,
    run: RunRow,
    { call, approval }: { readonly call: CallEvent; readonly approval: ApprovalRow },
  ): Promise<GateAnswer | undefined> {
    const { callId, tool } = call
    const asked = { tool, arguments: call.request }
    const judged = this.#decide(run, asked)
    if (judged.verdict !== 'deny') return undefined
    const reason = judged.reasons[0] ?? 'the policy refuses it'
    const decision = { callId, outcome: 'policyDenied', reason } as const
    await tx.changeCall(run.id, callId, { state: 'refused', decision })
    await tx.decideApproval(approval.requestId, { state: 'superseded', reason })
    return { events: [{ type: 'tool.denied', data: { callId, tool, by: 'policy', reason } }], decision }
  }

  /** The policy's decision, unless a restriction of the run refuses the call. */
  #decide(run: RunRow, asked: AgentCall): Decision {
    const refusal = refusedTool(this.#restrictions.of(run), asked.tool)
    if (refusal !== undefined) return { verdict: 'deny', rule: 'restricted', reasons: [refusal], matched: [] }
    return this.#governance.decide(asked, run.sandbox?.isolation ?? NO_SANDBOX)
  }

  async #answer(tx: Transaction, judged: Judged): Promise<GateAnswer> {
    const { call, decision } = judged
    const { callId, tool } = call
    if (decision.verdict === 'deny' || call.verdict === 'deny') {
      // The sandbox knows more of a call that it refused itself: the arguments may be too large to be announced.
      const own = call.verdict === 'deny' ? call.reasons : []
      const reason = [...own, ...decision.reasons][0] ?? 'the policy refuses it'
      return {
        events: [{ type: 'tool.denied', data: { callId, tool, by: 'policy', reason } }],
        decision: { callId, outcome: 'policyDenied', reason },
      }
    }
    const mustAsk = decision.verdict === 'ask' || call.verdict === 'ask' || tool === 'ask_question'
    if (mustAsk && !(await isApprovedForRun(tx, judged))) return this.#ask(tx, judged)
    return { events: [], decision: { callId, outcome: 'release' } }
  }

  async #ask(tx: Transaction, judged: Judged): Promise<GateAnswer> {
    const { call, decision } = judged
    const question =
      call.tool === 'ask_question' ? CONTROL_TOOL_ARGUMENTS.ask_question.safeParse(call.request) : undefined
    const approval = this.#newApproval(
      judged,
      question?.success ? 'question' : shellCommand(call) ? 'shell' : 'tool',
    )
    await tx.insertApproval(approval)
    const event = question?.success
      ? questionAsked(approval, question.data)
      : approvalRequired(approval, call, decision.matched.length > 0 ? decision.matched : decision.reasons)
    return {
      events: [event],
      decision: { callId: call.callId, outcome: 'pending', until: approval.expiresAt },
      approval,
    }
  }

  #newApproval({ run, call }: Judged, kind: ApprovalRow['kind']): ApprovalRow {
    const command = shellCommand(call)?.command
    const now = this.#clock()
    return {
      requestId: randomUUID(),
      runId: run.id,
      callId: call.callId,
      kind,
      tool: call.tool,
      binding: bindingOf(run, call),
      ...(command !== undefined && { commandHash: commandHash(command) }),
      redacted: call.redacted ?? false,
      state: 'pending',
      expiresAt: new Date(now.getTime() + this.#approvalTtlMs).toISOString(),
      createdAt: now.toISOString(),
    }
  }
}

type Judged = { readonly run: RunRow; readonly call: CallEvent; readonly decision: Decision }

/** For each decision: the new state of the call, and the word in the audit record. */
const AFTERMATH: Record<string, { state: CallRow['state']; decision: 'allow' | 'ask' | 'deny' }> & {
  policyDenied: { state: CallRow['state']; decision: 'allow' | 'ask' | 'deny' }
} = {
  release: { state: 'released', decision: 'allow' },
  pending: { state: 'open', decision: 'ask' },
  policyDenied: { state: 'refused', decision: 'deny' },
}

/** Whether a person approved exactly this request for the rest of the run. One that hides something never is. */
async function isApprovedForRun(tx: Transaction, { run, call }: Judged): Promise<boolean> {
  if (call.redacted) return false
  const binding = bindingOf(run, call)
  const approved = await tx.listApprovals(run.id, { state: 'approved' })
  const fitting = approved.filter((approval) => approval.scope === 'run' && approval.binding === binding)
  if (fitting.length === 0 || !needsAnotherPerson(run)) return fitting.length > 0
  // A person who contributed after the approval is not another person any more.
  const people = await contributorsOf(tx, run)
  return fitting.some(({ decidedBy }) => decidedBy !== undefined && !people.has(decidedBy))
}

export const bindingOf = (run: { id: string }, call: CallEvent): string =>
  approvalBinding({ runId: run.id, tool: call.tool, request: call.request, rawDigest: call.rawDigest })

function shellCommand(call: CallEvent) {
  if (call.tool !== 'run_command') return undefined
  const parsed = TOOL_ARGUMENTS.run_command.safeParse(call.request)
  return parsed.success ? parsed.data : undefined
}

const questionAsked = (
  approval: ApprovalRow,
  asked: { question: string; choices?: string[] | undefined },
): RunEvent => ({
  type: 'agent.question_asked',
  data: {
    requestId: approval.requestId,
    callId: approval.callId,
    question: showHidden(asked.question),
    ...(asked.choices && { choices: asked.choices.map(showHidden) }),
    expiresAt: approval.expiresAt,
  },
})

function approvalRequired(approval: ApprovalRow, call: CallEvent, matched: string[]): RunEvent {
  const { requestId, callId, tool, expiresAt, redacted } = approval
  const notes = redacted ? [...matched, REDACTED_CALLS_ONCE] : matched
  const data = { requestId, callId, tool, request: call.request, matched: notes, expiresAt, redacted }
  const shell = shellCommand(call)
  if (!shell) return { type: 'tool.approval_required', data }
  return {
    type: 'shell.approval_required',
    data: {
      ...data,
      commandHash: commandHash(shell.command),
      command: showHidden(shell.command),
      workingDirectory: showHidden(shell.directory ?? '.'),
    },
  }
}
