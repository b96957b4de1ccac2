import { present } from '../../../kit/present.ts'
import type { RunRow, TurnEnd, TurnOutcome, TurnRow } from '../../../store/store.ts'
import type { RunDeps } from '../deps.ts'
import type { Ending } from './finish.ts'
import type { TurnEnded } from './read-position.ts'

/** The last turn of a run, with what the agent reported in it. */
type LastTurn = { readonly end: TurnEnd; readonly outcome?: TurnOutcome }

/**
 * How a run ends after one of its turns. Undefined while the run goes on: an interactive run stays open after every
 * turn that is not final, also after a turn that failed. Any other run continues with its queued turns, unless the turn
 * failed.
 */
export async function endingAfterTurn(
  { store }: Pick<RunDeps, 'store'>,
  run: RunRow,
  { turn, end }: { readonly turn: TurnRow; readonly end: TurnEnded },
): Promise<Ending | undefined> {
  if (run.interactive && !turn.final) return undefined
  const { outcome, queued } = await store.transaction(async (tx) => ({
    outcome: (await tx.readTurn(turn.id))?.outcome,
    queued: await tx.listTurns(run.id, ['queued']),
  }))
  const ending = endingOf(run, { end: { state: end.state, ...present(end) }, ...present({ outcome }) })
  const hasFailed = end.state === 'failed' && ending.state === 'failed'
  const hasMore = !turn.final && queued.length > 0
  return hasMore && !hasFailed ? undefined : ending
}

/** How a run ends after the idle timeout. The last turn decides. */
export async function endingWhenIdle(
  { store, limits }: Pick<RunDeps, 'store' | 'limits'>,
  run: RunRow,
): Promise<Ending> {
  const seconds = limits.idleTimeoutMs / 1000
  // A sandbox without an agent has no task that could fail.
  if (run.kind === 'command') return { state: 'succeeded', summary: `ended after ${seconds} s without use` }
  const last = await store.transaction((tx) => tx.lastEndedTurn(run.id))
  if (last) return endingOf(run, { end: { state: 'completed' }, ...last })
  const message = `The run was idle for ${seconds} s before its first turn had ended. Start it again.`
  return { state: 'failed', code: 'idle_timeout', message }
}

/** A run succeeds only if its last turn reported that, or if the run accepts a turn without a report. */
function endingOf(run: RunRow, { end, outcome }: LastTurn): Ending {
  const { state, code = 'agent_failed', message } = end
  // This code means that the turn stopped before its report. It is no failure of a run that needs no report.
  if (state === 'failed' && code !== 'ended_without_outcome')
    return { state: 'failed', code, message: message ?? 'The turn failed without a reason.' }
  if (outcome === undefined && run.settings.require_outcome)
    return { state: 'failed', code: 'ended_without_outcome', message: message ?? notReported(run) }
  const reported = outcome?.outcome === 'failed' ? 'outcome-failed' : 'succeeded'
  return { state: reported, ...present({ summary: outcome?.summary }) }
}

const notReported = ({ id }: RunRow) =>
  'The agent ended its last turn without report_outcome, so it is unknown whether the task is done. ' +
  `Read what it said: agentweaver logs ${id}. ` +
  'To accept such an end, start the run with --allow-no-outcome (requireOutcome: false), unless the settings require a report.'
