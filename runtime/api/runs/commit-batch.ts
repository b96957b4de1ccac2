import type { CallDecision } from '../../../contracts/decisions.ts'
import type { HostEnvelope, HostEvent, RunEvent } from '../../../contracts/events.ts'
import type { ToolOutcome } from '../../../contracts/tools.ts'
import type { AuditDraft } from '../../audit/chain.ts'
import type { ApprovalRow, NewEvent, RunRow, Transaction } from '../../store/store.ts'
import type { AuditTrail } from './audit-trail.ts'
import type { RunDeps } from './deps.ts'
import type { Gate } from './gate.ts'

/** What a committed batch means for whoever drives the run. */
export type Committed = {
  readonly through: number
  readonly decisions: CallDecision[]
  readonly approvals: ApprovalRow[]
  readonly endedTurns: Extract<HostEvent, { type: 'turn.ended' }>['data'][]
  readonly endedCommands: string[]
}

export type Batch = {
  readonly runId: string
  readonly generation: number
  readonly envelopes: readonly HostEnvelope[]
}

type Work = {
  readonly tx: Transaction
  readonly run: RunRow
  readonly events: NewEvent[]
  readonly committed: Committed
  readonly generation: number
}

/**
 * The committer of one run. Stores a batch of a sandbox's events in one transaction: the events, redacted once more, what they mean for
 * calls, approvals, turns and commands, and the audit records. What is committed already is skipped.
 */
export function createBatchCommitter(deps: RunDeps, parts: { gate: Gate; audit: AuditTrail }) {
  const { store, clock } = deps
  const { gate, audit } = parts
  let touchedSecret = false

  async function onCall(work: Work, call: Extract<HostEvent, { type: 'tool.call' }>['data']): Promise<void> {
    const { tx, run } = work
    if (await tx.readCall(run.id, call.callId)) return
    const answer = await gate.onCall(tx, run, call, touchedSecret)
    work.events.push(...answer.events.map((event) => ({ event })))
    if (answer.decision) work.committed.decisions.push(answer.decision)
    if (answer.approval) work.committed.approvals.push(answer.approval)
    touchedSecret ||= deps.governance.touchesSecret({ tool: call.tool, arguments: call.request })
  }

  async function endCall(work: Work, ended: { callId: string; tool: string }, outcome: Partial<AuditDraft>) {
    const { tx, run } = work
    await tx.changeCall(run.id, ended.callId, { state: 'ended' })
    await audit.append(tx, run.id, [
      {
        kind: 'outcome',
        runId: run.id,
        callId: ended.callId,
        actor: `agent:${run.agent.kind}`,
        tool: ended.tool,
        policyVersion: run.policyVersion,
        at: clock().toISOString(),
        ...outcome,
      },
    ])
  }

  async function onCommandExited(work: Work, data: Extract<HostEvent, { type: 'command.exited' }>['data']) {
    if (data.callId !== undefined) return
    const { tx } = work
    await tx.endCommand(data.commandId, data.result)
    work.committed.endedCommands.push(data.commandId)
    await endCall(
      work,
      { callId: data.commandId, tool: 'exec' },
      {
        outcome: data.result.reason,
        durationMs: data.result.durationMs,
        bytes: data.result.stdoutBytes + data.result.stderrBytes,
        ...(data.result.exitCode !== null && { exitCode: data.result.exitCode }),
      },
    )
  }

  async function onTurnEnded(work: Work, data: Committed['endedTurns'][number]): Promise<void> {
    await work.tx.changeTurn(data.turnId, 'ended')
    work.committed.endedTurns.push(data)
  }

  async function apply(work: Work, envelope: HostEnvelope): Promise<void> {
    const event = deps.redact(envelope.event, work.run.settings) as HostEvent
    const { sequence } = envelope
    work.events.push({ event, at: envelope.at, host: { sequence, generation: work.generation } })
    switch (event.type) {
      case 'tool.call':
        return onCall(work, event.data)
      case 'tool.result':
        return endCall(work, event.data, outcomeFacts(event.data.outcome, event.data.durationMs))
      case 'tool.error':
        return endCall(work, event.data, { outcome: event.data.code })
      case 'command.exited':
        return onCommandExited(work, event.data)
      case 'turn.ended':
        return onTurnEnded(work, event.data)
      default:
        return undefined
    }
  }

  return async function commitBatch({ runId, generation, envelopes }: Batch): Promise<Committed> {
    const through = envelopes.at(-1)?.sequence ?? 0
    return store.transaction(async (tx) => {
      const run = await tx.readRun(runId)
      const committed: Committed = {
        through,
        decisions: [],
        approvals: [],
        endedTurns: [],
        endedCommands: [],
      }
      if (!run || run.generation !== generation) return committed
      const work: Work = { tx, run, events: [], committed, generation }
      for (const envelope of envelopes) if (envelope.sequence > run.hostSequence) await apply(work, envelope)
      await tx.appendEvents(runId, work.events)
      const firstEventAt = run.firstEventAt ?? firstAgentEventAt(work.events, clock())
      await tx.changeRun(runId, {
        hostSequence: Math.max(run.hostSequence, through),
        ...(firstEventAt && { firstEventAt }),
      })
      return committed
    })
  }
}

export type CommitBatch = ReturnType<typeof createBatchCommitter>

function outcomeFacts(outcome: ToolOutcome, durationMs: number): Partial<AuditDraft> {
  if (!outcome.ok) return { outcome: outcome.code, durationMs }
  const { exitCode, bytes } = outcome.facts
  return {
    outcome: 'ok',
    durationMs,
    ...(typeof exitCode === 'number' && { exitCode }),
    bytes: typeof bytes === 'number' ? bytes : Buffer.byteLength(outcome.content),
  }
}

const isOfAgent = (event: RunEvent) => event.type.startsWith('agent.') || event.type.startsWith('tool.')

const firstAgentEventAt = (events: readonly NewEvent[], now: Date): string | undefined =>
  events.some(({ event }) => isOfAgent(event)) ? now.toISOString() : undefined
