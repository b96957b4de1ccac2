import type { ErrorCode } from '../../../../contracts/errors.ts'
import type { RunEvent } from '../../../../contracts/events.ts'
import { SandboxError } from '../../../kit/errors.ts'
import type { Log } from '../../../kit/log.ts'
import { present } from '../../../kit/present.ts'
import type { CallRow } from '../../../store/call-row.ts'
import type { RunEnding } from '../../../store/columns.ts'
import type { RunChange, RunRow, Transaction } from '../../../store/store.ts'
import type { AuditTrail } from '../audit-trail.ts'
import type { SpentBudget } from '../budgets/spend.ts'
import { commandEnd } from '../command-records.ts'
import type { RunDeps } from '../deps.ts'
import type { Approvals } from '../gates/approvals.ts'
import { summaryOf } from '../ingest/call-summary.ts'
import { transition } from '../machine/transition.ts'
import { lossWords } from './loss-words.ts'

export type Ending = RunEnding

export const overdue = (afterMs: number): Ending => ({
  state: 'failed',
  code: 'deadline_exceeded',
  message: `the run was active for more than ${afterMs / 1000} s`,
})

export const stalled = (afterMs: number) =>
  new SandboxError(
    'agent_stall_timeout',
    `the sandbox said nothing for ${afterMs / 1000} s and does not answer`,
  )

export const budgetExceeded = ({ kind, used, limit, wanted }: SpentBudget): Ending => ({
  state: 'failed',
  code: 'budget_exceeded',
  message:
    (wanted === undefined
      ? `The run has used up its budget ${kind}: ${used} of ${limit}. `
      : `The run has used ${used} of its budget ${kind} of ${limit}, and the next request to the model may use ${wanted}. `) +
    `Start the task again with a larger budget ` +
    `(--budget ${kind}=N, or budgets.${kind} in the request). The settings of the folder and of the deployment must allow it.`,
})

/** The end of a run after an error. The message of an unexpected error is only in the log. */
export function failureOf(error: unknown, log: Log): Ending {
  if (error instanceof SandboxError && error.code !== 'internal')
    return { state: 'failed', code: error.code, message: error.message }
  log.error('the run failed', { error })
  return { state: 'failed', code: 'internal', message: 'the executor failed; its log has the cause' }
}

export type FinishParts = { readonly audit: AuditTrail; readonly approvals: Approvals }

function endEvent(ending: Ending): RunEvent {
  switch (ending.state) {
    case 'cancelled':
      return { type: 'run.cancelled', data: { by: ending.by } }
    case 'failed':
      return { type: 'run.failed', data: { code: ending.code, message: ending.message } }
    default: {
      const outcome = ending.state === 'succeeded' ? 'succeeded' : 'failed'
      return { type: 'run.outcome', data: { outcome, ...present({ summary: ending.summary }) } }
    }
  }
}

/**
 * Every intent gets its outcome: calls and file writes that have none yet, and commands of people. A call that was
 * released and never answered may have run; it is never released again.
 */
export async function closeOpen(
  tx: Transaction,
  run: RunRow,
  { audit, at, why = RUN_ENDED }: { audit: AuditTrail; at: string; why?: string },
): Promise<void> {
  const calls = await tx.listCalls(run.id, ['open', 'released', 'refused'])
  for (const { callId, request } of calls) {
    const summary = summaryOf(request)
    await tx.changeCall(run.id, callId, { state: 'ended', summary, sequence: run.lastSequence })
  }
  const commands = await tx.listRunningCommands(run.id)
  for (const command of commands) await tx.endCommand(command.id, { unknown: why })
  await audit.append(tx, run.id, [
    ...calls.map((call) => ({
      kind: 'outcome' as const,
      runId: run.id,
      callId: call.callId,
      actor: call.actor ?? `agent:${run.agent.kind}`,
      tool: call.tool,
      policyVersion: run.policyVersion,
      outcome: outcomeOf(call, why),
      at,
    })),
    ...commands.map((command) => commandEnd(run, command, { outcome: unknown(why), at })),
  ])
}

const RUN_ENDED = 'the run ended first'
const unknown = (why: string) => `unknown (${why})`

const outcomeOf = ({ state, decision }: CallRow, why: string): string => {
  if (state === 'released') return unknown(why)
  return state === 'refused' && decision ? `not released (${decision.outcome})` : 'not released'
}

export type RunEnd = {
  readonly runId: string
  readonly ending: Ending
  /** Why the sandbox was released. Absent if there was none. */
  readonly released?: string
  /** Events before the end itself. */
  readonly events?: readonly RunEvent[]
  /** Asked of the run in the transaction that would end it. */
  readonly onlyIf?: (run: RunRow) => boolean
}

/**
 * Ends a run in one transaction: approvals superseded, calls and commands closed, the last events, the audit chain sealed,
 * the state final. A run that is final already is left as it is.
 */
export async function finishRun(deps: RunDeps, parts: FinishParts, unredacted: RunEnd): Promise<void> {
  const { runId } = unredacted
  const at = deps.clock().toISOString()
  await deps.store.transaction(async (tx) => {
    const run = await tx.readRun(runId)
    if (!run || run.endedAt !== undefined || unredacted.onlyIf?.(run) === false) return
    const ending = redactedEnding(unredacted.ending, run, deps.redactText)
    await parts.approvals.supersedeAll(tx, runId, 'the run ended')
    await closeOpen(tx, run, { audit: parts.audit, at })
    await tx.deleteRestriction({ kind: 'run', id: runId })
    await parts.audit.seal(tx, runId, at)
    await tx.appendEvents(
      runId,
      lastEvents({ ...unredacted, ending }).map((event) => ({ event })),
    )
    const event = { kind: 'ended', state: stateOf(ending) } as const
    await transition(tx, run, { event, facts: { endedAt: at, ...factsOf(ending) } })
  })
}

export const WITHOUT_REASON: Ending = {
  state: 'failed',
  code: 'internal',
  message: 'the run ended without a reason',
}

/** The sandbox is gone, or goes with this process; the run may continue in another one. */
export const isLoss = (ending: Ending): ending is Extract<Ending, { state: 'failed' }> =>
  ending.state === 'failed' && LOSSES.has(ending.code)

/** The sandbox, and everything that was only in it, is gone. */
const LOSSES: ReadonlySet<ErrorCode> = new Set(['sandbox_lost', 'api_restarted'])

function redactedEnding(ending: Ending, run: RunRow, redact: RunDeps['redactText']): Ending {
  if (ending.state !== 'failed') return ending
  const message = redact(ending.message)
  if (!LOSSES.has(ending.code)) return { ...ending, message }
  return { ...ending, message: `${message.replace(/\.$/, '')}. ${lossWords(run)}` }
}

const stateOf = (ending: Ending) => (ending.state === 'outcome-failed' ? 'failed' : ending.state)

function lastEvents({ ending, released, events = [] }: RunEnd): RunEvent[] {
  const release: RunEvent[] =
    released === undefined ? [] : [{ type: 'sandbox.execution_pod.released', data: { reason: released } }]
  return [...events, endEvent(ending), ...release, { type: 'done', data: { state: stateOf(ending) } }]
}

/** What the run's row keeps of its end. */
function factsOf(ending: Ending): RunChange {
  switch (ending.state) {
    case 'cancelled':
      return {}
    case 'failed':
      return { failure: { code: ending.code, message: ending.message } }
    default: {
      const outcome = ending.state === 'succeeded' ? 'succeeded' : 'failed'
      return { outcome: { outcome, ...present({ summary: ending.summary }) } }
    }
  }
}
