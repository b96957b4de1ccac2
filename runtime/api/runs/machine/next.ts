import type { RunState } from '../../../../contracts/api.ts'

/** Everything that can change the state of a run. */
export type StateEvent =
  /** The workspace of a run that waits for an upload is stored. */
  | { readonly kind: 'uploaded' }
  /** A process takes the run from the queue and is about to ask for a sandbox. */
  | { readonly kind: 'picked' }
  /** A new driver asks again for the sandbox that its predecessor did not get. */
  | { readonly kind: 'launch_repeated' }
  /** The provider has no room for the sandbox. */
  | { readonly kind: 'no_room' }
  /** The driver takes a turn and sends it to the sandbox. */
  | { readonly kind: 'turn_taken' }
  /** The sandbox serves, and no turn is queued. */
  | { readonly kind: 'no_turn' }
  /** Every open call of the turn waits for a person. */
  | { readonly kind: 'calls_wait' }
  /** A call of the turn was decided or announced, and need not wait. */
  | { readonly kind: 'call_goes_on' }
  /** The driver begins to save a run that waits, and to give its sandbox back. */
  | { readonly kind: 'suspension_begun' }
  /** The checkpoint of the suspension could not be saved; the sandbox stays. */
  | { readonly kind: 'suspension_failed' }
  /** The checkpoint is durable. */
  | { readonly kind: 'checkpoint_saved' }
  /** A decision, a turn or a request to resume has come. */
  | { readonly kind: 'resumption_requested' }
  /** The sandbox is gone, and the run can continue in another one. */
  | { readonly kind: 'sandbox_lost' }
  /** The sandbox is gone; the run can continue, but a person must ask for it. */
  | { readonly kind: 'sandbox_lost_unsure' }
  /** The driver begins to release the sandbox. */
  | { readonly kind: 'release_begun' }
  | { readonly kind: 'ended'; readonly state: FinalState }

export type FinalState = 'succeeded' | 'failed' | 'cancelled'

export type Next =
  | { readonly kind: 'moved'; readonly state: RunState }
  /** The event cannot happen in this state: the run stays as it is. */
  | { readonly kind: 'refused'; readonly reason: string }

/** The state of a new run. */
export const firstState = (awaitsUpload: boolean) => (awaitsUpload ? 'waiting_upload' : 'queued')

type Row = Readonly<Partial<Record<RunState, RunState>>>

/** For each event: the states in which it can happen, and the state that follows. */
const MOVES: Readonly<Record<Exclude<StateEvent['kind'], 'ended'>, Row>> = {
  uploaded: { waiting_upload: 'queued' },
  picked: { queued: 'starting', pending_capacity: 'starting' },
  launch_repeated: { starting: 'starting' },
  no_room: { starting: 'pending_capacity' },
  turn_taken: { starting: 'running', running: 'running', waiting: 'running' },
  no_turn: { starting: 'waiting', running: 'waiting', waiting: 'waiting' },
  calls_wait: { running: 'waiting', waiting: 'waiting' },
  call_goes_on: { running: 'running', waiting: 'running', suspending: 'suspending' },
  suspension_begun: { waiting: 'suspending' },
  suspension_failed: { suspending: 'waiting' },
  checkpoint_saved: { suspending: 'suspended' },
  resumption_requested: { suspended: 'queued' },
  sandbox_lost: {
    starting: 'queued',
    running: 'queued',
    waiting: 'queued',
    suspending: 'queued',
  },
  sandbox_lost_unsure: {
    starting: 'suspended',
    running: 'suspended',
    waiting: 'suspended',
    suspending: 'suspended',
  },
  // A new driver repeats the release that its predecessor did not finish.
  release_begun: {
    starting: 'ending',
    running: 'ending',
    waiting: 'ending',
    suspending: 'ending',
    ending: 'ending',
  },
}

const FINAL: ReadonlySet<RunState> = new Set(['succeeded', 'failed', 'cancelled'])
/** Only a run that has served can have succeeded. */
const CAN_SUCCEED: ReadonlySet<RunState> = new Set(['running', 'waiting', 'suspended', 'ending'])

/** The state that follows an event. Pure, and defined for every state and every event. */
export function next(state: RunState, event: StateEvent): Next {
  if (event.kind !== 'ended') {
    const following = MOVES[event.kind][state]
    return following === undefined ? refused(state, event.kind) : { kind: 'moved', state: following }
  }
  const isAllowed = event.state === 'succeeded' ? CAN_SUCCEED.has(state) : !FINAL.has(state)
  return isAllowed ? { kind: 'moved', state: event.state } : refused(state, `ended as ${event.state}`)
}

const refused = (state: RunState, event: string): Next => ({
  kind: 'refused',
  reason: `the event "${event}" cannot happen to a run that is ${state}`,
})
