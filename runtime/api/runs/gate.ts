import { randomUUID } from 'node:crypto'
import type { CallDecision } from '../../../contracts/decisions.ts'
import type { HostEvent, RunEvent } from '../../../contracts/events.ts'
import type { Decision } from '../../../contracts/policy.ts'
import { CONTROL_TOOL_ARGUMENTS, TOOL_ARGUMENTS } from '../../../contracts/tools.ts'
import type { ApprovalRow, RunRow, Transaction } from '../../store/store.ts'
import { approvalBinding, commandHash, showHidden } from './approval-binding.ts'
import type { AuditTrail } from './audit-trail.ts'
import type { RunDeps } from './deps.ts'

export type CallEvent = Extract<HostEvent, { type: 'tool.call' }>['data']

/** What the control plane says to a call: events to store with it, and the decision to post once they are. */
export type GateAnswer = {
  readonly events: RunEvent[]
  readonly decision?: CallDecision
  readonly approval?: ApprovalRow
}

const REDACTED_CALLS_ONCE = 'this request holds something that is hidden; it can be approved once only'

/**
 * The control plane's word on a call of the agent, in the transaction that stores the call: governance again,
 * then a release, a refusal, or a request to a person. The audit intent is written here, before anything acts.
 */
export function createGate(deps: RunDeps, audit: AuditTrail) {
  const { governance, limits, clock } = deps

  const judge = (run: RunRow, call: CallEvent, touched: boolean): Decision =>
    governance.decide(
      run.settings,
      { tool: call.tool, arguments: call.request },
      {
        isRealIsolation: run.sandbox?.isolation.isRealIsolation ?? false,
        phase: 'work',
        touched: { secret: touched },
      },
    )

  const expiresAt = () => new Date(clock().getTime() + limits.approvalTtlMs).toISOString()

  function newApproval(run: RunRow, call: CallEvent, kind: ApprovalRow['kind']): ApprovalRow {
    const command = shellCommand(call)?.command
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
      expiresAt: expiresAt(),
      createdAt: clock().toISOString(),
    }
  }

  async function ask(
    tx: Transaction,
    run: RunRow,
    pending: { call: CallEvent; matched: string[] },
  ): Promise<GateAnswer> {
    const { call, matched } = pending
    const question =
      call.tool === 'ask_question' ? CONTROL_TOOL_ARGUMENTS.ask_question.safeParse(call.request) : undefined
    const approval = newApproval(
      run,
      call,
      question?.success ? 'question' : shellCommand(call) ? 'shell' : 'tool',
    )
    await tx.insertApproval(approval)
    const decision: CallDecision = { callId: call.callId, outcome: 'pending', until: approval.expiresAt }
    const event = question?.success
      ? questionAsked(approval, question.data)
      : approvalRequired(approval, call, matched)
    return { events: [event], decision, approval }
  }

  async function isApprovedForRun(tx: Transaction, run: RunRow, call: CallEvent): Promise<boolean> {
    if (call.redacted) return false
    const binding = bindingOf(run, call)
    const approved = await tx.listApprovals(run.id, { state: 'approved' })
    return approved.some((approval) => approval.scope === 'run' && approval.binding === binding)
  }

  async function answer(
    tx: Transaction,
    run: RunRow,
    verdict: { call: CallEvent; decision: Decision },
  ): Promise<GateAnswer> {
    const { call, decision } = verdict
    const { callId, tool } = call
    if (decision.verdict === 'deny' || call.verdict === 'deny') {
      const reason = [...decision.reasons, ...call.reasons][0] ?? 'the policy refuses it'
      return {
        events: [{ type: 'tool.denied', data: { callId, tool, by: 'policy', reason } }],
        decision: { callId, outcome: 'policyDenied', reason },
      }
    }
    const mustAsk = decision.verdict === 'ask' || call.verdict === 'ask' || tool === 'ask_question'
    if (mustAsk && !(await isApprovedForRun(tx, run, call)))
      return ask(tx, run, { call, matched: decision.matched })
    return { events: [], decision: { callId, outcome: 'release' } }
  }

  return {
    async onCall(tx: Transaction, run: RunRow, call: CallEvent, touched: boolean): Promise<GateAnswer> {
      const decision = judge(run, call, touched)
      const gate = await answer(tx, run, { call, decision })
      const outcome = gate.decision?.outcome
      const at = clock().toISOString()
      await audit.append(tx, run.id, [
        {
          kind: 'intent',
          runId: run.id,
          callId: call.callId,
          actor: `agent:${run.agent.kind}`,
          tool: call.tool,
          params: call.request,
          policyVersion: run.policyVersion,
          decision: outcome === 'release' ? 'allow' : outcome === 'pending' ? 'ask' : 'deny',
          reasons: decision.reasons,
          ...(gate.approval && { approval: gate.approval.requestId }),
          at,
        },
      ])
      await tx.insertCall({
        runId: run.id,
        callId: call.callId,
        tool: call.tool,
        state: outcome === 'release' ? 'released' : outcome === 'pending' ? 'open' : 'refused',
        decision: gate.decision,
        openedAt: at,
      })
      return gate
    },
  }
}

export type Gate = ReturnType<typeof createGate>

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
