import { RunState } from '../../../contracts/api.ts'
import { next, type StateEvent } from '../../../runtime/api/runs/machine/next.ts'

/** A record, so that an event without a row here does not compile. */
const BY_KIND: { readonly [Kind in StateEvent['kind']]: readonly Extract<StateEvent, { kind: Kind }>[] } = {
  uploaded: [{ kind: 'uploaded' }],
  picked: [{ kind: 'picked' }],
  launch_repeated: [{ kind: 'launch_repeated' }],
  no_room: [{ kind: 'no_room' }],
  turn_taken: [{ kind: 'turn_taken' }],
  no_turn: [{ kind: 'no_turn' }],
  calls_wait: [{ kind: 'calls_wait' }],
  call_goes_on: [{ kind: 'call_goes_on' }],
  suspension_begun: [{ kind: 'suspension_begun' }],
  suspension_failed: [{ kind: 'suspension_failed' }],
  checkpoint_saved: [{ kind: 'checkpoint_saved' }],
  resumption_requested: [{ kind: 'resumption_requested' }],
  sandbox_lost: [{ kind: 'sandbox_lost' }],
  sandbox_lost_unsure: [{ kind: 'sandbox_lost_unsure' }],
  release_begun: [{ kind: 'release_begun' }],
  ended: [
    { kind: 'ended', state: 'succeeded' },
    { kind: 'ended', state: 'failed' },
    { kind: 'ended', state: 'cancelled' },
  ],
}

export const EVENTS: readonly StateEvent[] = Object.values(BY_KIND).flat()

export const titleOf = (event: StateEvent) =>
  event.kind === 'ended' ? `ended as ${event.state}` : event.kind

const row = (cells: readonly string[]) => `| ${cells.join(' | ')} |`

/** The state machine as a Markdown table: one row for each state, with the events that can happen in it. */
export function stateTable(): string {
  const lines = RunState.options.map((state) => {
    const moves = EVENTS.filter(({ kind }) => kind !== 'ended').flatMap((event) => {
      const following = next(state, event)
      return following.kind === 'moved' ? [`${titleOf(event)} → \`${following.state}\``] : []
    })
    const ends = EVENTS.filter(({ kind }) => kind === 'ended').flatMap((event) => {
      const following = next(state, event)
      return following.kind === 'moved' ? [`\`${following.state}\``] : []
    })
    if (ends.length > 0) moves.push(`ended → ${ends.join(', ')}`)
    return row([`\`${state}\``, moves.join('; ') || 'none'])
  })
  return [row(['state', 'event → next state']), row(['---', '---']), ...lines].join('\n')
}
