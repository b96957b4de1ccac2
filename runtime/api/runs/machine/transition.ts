import type { RunState } from '../../../../contracts/api.ts'
import { SandboxError } from '../../../kit/errors.ts'
import { QUEUED_STATES } from '../../../store/queue.ts'
import type { RunChange, RunRow, Transaction } from '../../../store/store.ts'
import { next, type StateEvent } from './next.ts'

/** States in which the run's row has `waiting`. */
const WAITING: ReadonlySet<RunState> = new Set(['waiting', 'suspending', 'suspended'])

/** A run that waits in the queue has no driver. */
const QUEUED: ReadonlySet<RunState> = new Set(QUEUED_STATES)

type Current = Pick<RunRow, 'id' | 'state'>

/**
 * Applies an event to a run and stores the new state together with `facts`. The only code that writes the state of an
 * existing run. `run` must have been read in this transaction, so that its row is locked. Throws `conflict` if the
 * event cannot happen in the run's state.
 */
export async function transition(
  tx: Transaction,
  run: Current,
  { event, facts = {} }: { readonly event: StateEvent; readonly facts?: RunChange },
): Promise<RunState> {
  const following = next(run.state, event)
  if (following.kind === 'refused') throw new SandboxError('conflict', `Run ${run.id}: ${following.reason}.`)
  const change: RunChange = {
    ...(!WAITING.has(following.state) && { waiting: null }),
    ...facts,
    ...(QUEUED.has(following.state) && { holder: null }),
  }
  await tx.changeRunState(run.id, { from: run.state, to: following.state }, change)
  return following.state
}

/** Queues a suspended run for a sandbox. It keeps its place from the time when it was queued first. */
export async function requestResumption(
  tx: Transaction,
  run: Current & Pick<RunRow, 'ending'>,
): Promise<RunState> {
  if (run.ending !== undefined) throw new SandboxError('run_ended', `run ${run.id} is to end`)
  return transition(tx, run, { event: { kind: 'resumption_requested' } })
}
