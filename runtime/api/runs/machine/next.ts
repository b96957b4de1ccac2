import type { RunState } from '../../../../contracts/api.ts'

/** Everything that can change the state of a run. */
export type StateEvent =
  /** The workspace of a run that waits for an upload is stored. */
  | { readonly kind: 'uploaded' }
  /** A driver is about to ask the provider for a sandbox. */
  | { readonly kind: 'launch_requested' }
  /** The provider has no room for the sandbox. */
  | { readonly kind: 'no_room' }
  /** The driver takes a turn and sends it to the sandbox. */
  | { readonly kind: 'turn_taken' }
  /** The sandbox serves, and no turn waits. */
  | { readonly kind: 'no_turn' }
  /** The driver begins to release the sandbox. */
  | { readonly kind: 'release_begun' }
  | { readonly kind: 'ended'; readonly state: FinalState }

export type FinalState = 'succeeded' | 'failed' | 'cancelled'

export type Next =
  | { readonly kind: 'moved'; readonly state: RunState }
  /** The event cannot happen in this state: the run stays as it is. */
  | { readonly kind: 'refused'; readonly reason: string }

/** The state of a new run. */
export const firstState = (awaitsUpload: boolean) => (awaitsUpload ? 'awaiting_upload' : 'queued')

type Row = Readonly<Partial<Record<RunState, RunState>>>

/** For each event: the states in which it can happen, and the state that follows. */
const MOVES: Readonly<Record<Exclude<StateEvent['kind'], 'ended'>, Row>> = {
  uploaded: { awaiting_upload: 'queued' },
  // A new driver repeats the launch that its predecessor did not finish.
  launch_requested: { queued: 'launching', launching: 'launching' },
  no_room: { queued: 'queued', launching: 'queued' },
  turn_taken: { launching: 'running', running: 'running', idle: 'running' },
  no_turn: { launching: 'idle', running: 'idle', idle: 'idle' },
  // A new driver repeats the release that its predecessor did not finish.
  release_begun: { launching: 'ending', running: 'ending', idle: 'ending', ending: 'ending' },
}

const FINAL: ReadonlySet<RunState> = new Set(['succeeded', 'failed', 'cancelled'])
/** Only a run that has served can have succeeded. */
const CAN_SUCCEED: ReadonlySet<RunState> = new Set(['running', 'idle', 'ending'])

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
