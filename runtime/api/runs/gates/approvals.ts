import type { Approval } from '../../../../contracts/api.ts'
import type { CallDecision } from '../../../../contracts/decisions.ts'
import type { RunEvent } from '../../../../contracts/events.ts'
import { SandboxError } from '../../../kit/errors.ts'
import { present } from '../../../kit/present.ts'
import type { ApprovalRow, RunRow, Transaction } from '../../../store/store.ts'
import type { AuditTrail } from '../audit-trail.ts'
import type { RunDeps } from '../deps.ts'
import { requestResumption, transition } from '../machine/transition.ts'
import { refusedTool } from '../restrictions/refusals.ts'
import type { Caller } from '../service.ts'
import { recordContribution } from './contributors.ts'
import { requireAnotherPerson } from './four-eyes.ts'

export type PersonsWord = {
  readonly requestId: string
  readonly outcome: 'approved' | 'denied' | 'answered'
  readonly by: string
  readonly scope?: 'once' | 'run'
  readonly reason?: string | undefined
  readonly answer?: string
}

const DECISIONS = {
  approved: 'release',
  denied: 'denied',
  answered: 'answer',
  expired: 'expired',
  superseded: 'superseded',
} as const

/** The event for a decision. Shell approvals have separate event types. */
function decidedEvent(
  approval: ApprovalRow,
  state: keyof typeof DECISIONS,
  word: Partial<PersonsWord>,
): RunEvent {
  const { requestId, callId, kind, tool } = approval
  const data = {
    requestId,
    callId,
    ...(word.by && { by: word.by }),
    ...(word.reason && { reason: word.reason }),
  }
  if (state === 'answered')
    return { type: 'agent.question_answered', data: { requestId, callId, by: word.by ?? '' } }
  if (kind === 'shell') return { type: `shell.${state}`, data }
  if (state !== 'denied') return { type: `tool.${state}`, data }
  const reason = word.reason ?? 'denied without a reason'
  return { type: 'tool.denied', data: { callId, tool, by: 'person', reason, requestId } }
}

/** The life of approvals and questions after they are asked: each ends exactly once. */
export class Approvals {
  readonly #store: RunDeps['store']
  readonly #clock: RunDeps['clock']
  readonly #restrictions: RunDeps['restrictions']

  readonly #audit: AuditTrail

  constructor(
    { store, clock, restrictions }: Pick<RunDeps, 'store' | 'clock' | 'restrictions'>,
    audit: AuditTrail,
  ) {
    this.#restrictions = restrictions
    this.#store = store
    this.#clock = clock
    this.#audit = audit
  }

  /** Stores a person's decision on one request. Throws `already_decided` if there was an earlier decision. */
  decide(
    caller: Caller,
    runId: string,
    word: PersonsWord,
  ): Promise<{ approval: Approval; decision: CallDecision }> {
    return this.#store.transaction(async (tx) => {
      const approval = await this.#requirePending(tx, runId, word.requestId)
      assertFits(approval, word)
      if (word.outcome === 'approved') await this.#admitApproval(tx, approval, caller)
      if (word.outcome === 'answered') {
        const at = this.#clock().toISOString()
        await recordContribution(tx, caller, { runId, how: 'answer', at })
      }
      const decision = await this.#settle(tx, approval, { ...word, state: word.outcome })
      const decided = await tx.readApproval(runId, word.requestId)
      if (!decision || !decided)
        throw new SandboxError('already_decided', `request ${word.requestId} was decided`)
      // The answer to a question has no body.
      await caller.keep?.(tx, word.outcome === 'answered' ? null : toApproval(decided))
      return { approval: toApproval(decided), decision }
    })
  }

  /** The one pending request with this command hash; more than one are a conflict that names them. */
  async findByHash(runId: string, hash: string): Promise<string> {
    const pending = await this.#store.listApprovals(runId, { state: 'pending' })
    const found = pending.filter(({ commandHash }) => commandHash === hash).map(({ requestId }) => requestId)
    if (found.length === 1 && found[0] !== undefined) return found[0]
    if (found.length === 0) throw new SandboxError('not_found', `this run has no pending command ${hash}`)
    throw new SandboxError('ambiguous_command_hash', `several requests have this hash: ${found.join(', ')}`)
  }

  expire(runId: string, requestId: string): Promise<CallDecision | undefined> {
    return this.#store.transaction(async (tx) => {
      const approval = await tx.readApproval(runId, requestId)
      if (approval?.state === 'expired') return storedDecision(tx, runId, approval.callId)
      if (approval?.state !== 'pending') return undefined
      return this.#settle(tx, approval, { state: 'expired', reason: 'nobody decided before it expired' })
    })
  }

  /** Ends all pending approvals in the transaction that ends the run. */
  async supersedeAll(tx: Transaction, runId: string, reason: string): Promise<void> {
    for (const approval of await tx.listApprovals(runId, { state: 'pending' })) {
      await this.#settle(tx, approval, { state: 'superseded', reason })
    }
  }

  /** An approval does not go beyond a restriction, and may need another person. The request stays open. */
  async #admitApproval(tx: Transaction, { runId, tool }: ApprovalRow, caller: Caller): Promise<void> {
    const run = await tx.readRun(runId)
    if (!run) return
    const refusal = refusedTool(this.#restrictions.of(run), tool)
    if (refusal !== undefined) throw new SandboxError('restricted', refusal)
    await requireAnotherPerson(tx, run, caller)
  }

  async #requirePending(tx: Transaction, runId: string, requestId: string): Promise<ApprovalRow> {
    const approval = await tx.readApproval(runId, requestId)
    if (!approval) throw new SandboxError('not_found', `this run has no request ${requestId}`)
    if (approval.state !== 'pending') {
      throw new SandboxError('already_decided', `request ${requestId} is ${approval.state}`)
    }
    if (Date.parse(approval.expiresAt) > this.#clock().getTime()) return approval
    throw new SandboxError('already_decided', `request ${requestId} expired at ${approval.expiresAt}`)
  }

  /** A run that waits for a decision has one. Without a sandbox it is queued for one. */
  async #goOn(tx: Transaction, run: RunRow): Promise<void> {
    if (run.state === 'waiting' && run.waiting?.for !== 'turn')
      await transition(tx, run, { event: { kind: 'call_goes_on' } })
    if (run.state === 'suspended') await requestResumption(tx, run)
  }

  /** Ends an approval and applies all consequences. Returns undefined if another decision came first. */
  async #settle(tx: Transaction, approval: ApprovalRow, word: Settled): Promise<CallDecision | undefined> {
    const { state, by, scope, reason, answer } = word
    const { runId, requestId, callId, tool } = approval
    const run = await tx.readRun(runId)
    const change = { state, ...present({ decidedBy: by, scope, reason, answer }) }
    if (!run || !(await tx.decideApproval(requestId, change))) return undefined
    const outcome = DECISIONS[state]
    const decision: CallDecision = { callId, outcome, ...present({ reason, value: answer }) }
    const callState = outcome === 'release' || outcome === 'answer' ? 'released' : 'refused'
    const call = await tx.readCall(runId, callId)
    // A call that its sandbox gave up while it waited has ended, and has its outcome.
    await tx.changeCall(runId, callId, { decision, ...(call?.state !== 'ended' && { state: callState }) })
    if (state !== 'superseded') await this.#goOn(tx, run)
    await tx.appendEvents(runId, [{ event: decidedEvent(approval, state, word) }])
    await this.#audit.append(tx, runId, [
      {
        kind: 'decision',
        runId,
        callId,
        actor: by === undefined ? 'agentweaver' : `person:${by}`,
        tool,
        policyVersion: run.policyVersion,
        decision: state,
        approval: requestId,
        ...(scope && { reasons: [`scope ${scope}`] }),
        at: this.#clock().toISOString(),
      },
    ])
    return decision
  }
}

type Settled = { readonly state: keyof typeof DECISIONS } & Partial<PersonsWord>

function assertFits(approval: ApprovalRow, word: PersonsWord): void {
  const isQuestion = approval.kind === 'question'
  if (isQuestion !== (word.outcome === 'answered')) {
    throw new SandboxError('conflict', `request ${approval.requestId} is a ${approval.kind} request`)
  }
  if (approval.redacted && word.scope === 'run') {
    throw new SandboxError('conflict', 'a request that holds something hidden can be approved once only')
  }
}

export function toApproval(row: ApprovalRow): Approval {
  const { requestId, runId, callId, tool, expiresAt } = row
  return {
    requestId,
    runId,
    callId,
    tool,
    expiresAt,
    state: row.state === 'answered' ? 'approved' : row.state,
    ...(row.commandHash && { commandHash: row.commandHash }),
    ...(row.scope && { scope: row.scope }),
    ...(row.decidedBy && { decidedBy: row.decidedBy }),
    ...(row.reason && { reason: row.reason }),
  }
}

/** The decision of an approval that was settled before: the sandbox takes each decision once. */
async function storedDecision(
  tx: Transaction,
  runId: string,
  callId: string,
): Promise<CallDecision | undefined> {
  return (await tx.readCall(runId, callId))?.decision
}
