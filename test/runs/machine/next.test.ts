import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { FINAL_STATES, RunState } from '../../../contracts/api.ts'
import { firstState, next, type StateEvent } from '../../../runtime/api/runs/machine/next.ts'
import { EVENTS, stateTable, titleOf } from './state-table.ts'

const WITH_SANDBOX = ['starting', 'running', 'waiting', 'suspending'] as const
const NOT_FINAL = [
  'waiting_upload',
  'queued',
  'pending_capacity',
  ...WITH_SANDBOX,
  'suspended',
  'ending',
] as const

/** Every valid transition. All other pairs of state and event must be rejected. */
const POSSIBLE: readonly (readonly [RunState, string, RunState])[] = [
  ['waiting_upload', 'uploaded', 'queued'],
  ['queued', 'picked', 'starting'],
  ['pending_capacity', 'picked', 'starting'],
  ['starting', 'launch_repeated', 'starting'],
  ['starting', 'no_room', 'pending_capacity'],
  ['starting', 'turn_taken', 'running'],
  ['running', 'turn_taken', 'running'],
  ['waiting', 'turn_taken', 'running'],
  ['starting', 'no_turn', 'waiting'],
  ['running', 'no_turn', 'waiting'],
  ['waiting', 'no_turn', 'waiting'],
  ['running', 'calls_wait', 'waiting'],
  ['waiting', 'calls_wait', 'waiting'],
  ['running', 'call_goes_on', 'running'],
  ['waiting', 'call_goes_on', 'running'],
  ['suspending', 'call_goes_on', 'suspending'],
  ['waiting', 'suspension_begun', 'suspending'],
  ['suspending', 'suspension_failed', 'waiting'],
  ['suspending', 'checkpoint_saved', 'suspended'],
  ['suspended', 'resumption_requested', 'queued'],
  ...WITH_SANDBOX.flatMap((state) => [
    [state, 'sandbox_lost', 'queued'] as const,
    [state, 'sandbox_lost_unsure', 'suspended'] as const,
    [state, 'release_begun', 'ending'] as const,
  ]),
  ['ending', 'release_begun', 'ending'],
  ...(['running', 'waiting', 'suspended', 'ending'] as const).map(
    (state) => [state, 'ended as succeeded', 'succeeded'] as const,
  ),
  ...NOT_FINAL.flatMap((state) => [
    [state, 'ended as failed', 'failed'] as const,
    [state, 'ended as cancelled', 'cancelled'] as const,
  ]),
]

const PAIRS = RunState.options.flatMap((state) => EVENTS.map((event) => ({ state, event })))
const expected = (state: RunState, event: StateEvent) =>
  POSSIBLE.find(([from, title]) => from === state && title === titleOf(event))?.[2]

it.each(PAIRS.filter(({ state, event }) => expected(state, event)))(
  'moves a run that is $state on $event',
  ({ state, event }) => {
    expect(next(state, event)).toEqual({ kind: 'moved', state: expected(state, event) })
  },
)

it.each(PAIRS.filter(({ state, event }) => !expected(state, event)))(
  'refuses for a run that is $state the event $event, and names both',
  ({ state, event }) => {
    const refused = next(state, event)

    expect(refused).toMatchObject({ kind: 'refused' })
    expect(refused).toHaveProperty('reason', expect.stringContaining(state))
    expect(refused).toHaveProperty('reason', expect.stringContaining(titleOf(event)))
  },
)

it('never leaves a final state', () => {
  for (const state of FINAL_STATES) {
    expect(EVENTS.map((event) => next(state, event).kind)).toEqual(EVENTS.map(() => 'refused'))
  }
})

it('can reach every state from the first states, and can end from every state that is not final', () => {
  const reached = new Set<RunState>([firstState(true), firstState(false)])
  for (const state of reached) {
    for (const event of EVENTS) {
      const following = next(state, event)
      if (following.kind === 'moved') reached.add(following.state)
    }
    const isFinal = FINAL_STATES.some((final) => final === state)
    expect([state, next(state, { kind: 'ended', state: 'failed' }).kind]).toEqual([
      state,
      isFinal ? 'refused' : 'moved',
    ])
  }
  expect([...reached].sort()).toEqual([...RunState.options].sort())
})

it('is the table in docs/runs.md', () => {
  const page = readFileSync(join(import.meta.dirname, '../../../docs/runs.md'), 'utf8')

  expect(page).toContain(stateTable())
})
