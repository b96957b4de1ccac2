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
  const turns = await store.transaction((tx) => tx.listTurns(run.id))
  const hasMore = !turn.final && turns.some(({ state }) => state === 'queued')
  if (hasMore && end.state !== 'failed') return undefined
  const outcome = turns.find(({ id }) => id === turn.id)?.outcome
  return endingOf({ end: { state: end.state, ...present(end) }, ...present({ outcome }) })
}

/** How a run ends that nobody has used for the idle timeout. The last turn decides. */
export async function endingWhenIdle(
  { store, limits }: Pick<RunDeps, 'store' | 'limits'>,
  run: RunRow,
): Promise<Ending> {
  const turns = await store.transaction((tx) => tx.listTurns(run.id, ['ended']))
  const last = turns.at(-1)
  if (last) return endingOf({ end: { state: 'completed' }, ...last })
  return { state: 'succeeded', summary: `ended after ${limits.idleTimeoutMs / 1000} s without use` }
}

function endingOf({ end, outcome }: LastTurn): Ending {
  if (end.state === 'failed')
    return { state: 'failed', code: end.code ?? 'agent_failed', message: end.message ?? 'the turn failed' }
  const state = outcome?.outcome === 'failed' ? 'outcome-failed' : 'succeeded'
  return { state, ...present({ summary: outcome?.summary }) }
}
