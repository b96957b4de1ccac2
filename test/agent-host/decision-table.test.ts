import fc from 'fast-check'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import type { CallDecision } from '../../contracts/decisions.ts'
import { DecisionTable } from '../../runtime/agent-host/decisions/decision-table.ts'

const never = new AbortController().signal
const aTable = () => new DecisionTable({ timeoutMs: 30_000 })
const release = (callId: string): CallDecision => ({ callId, outcome: 'release' })

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

it('settles a call with its decision', async () => {
  const table = aTable()
  const decided = table.expect('c1', never)

  const reply = table.decide([{ callId: 'c1', outcome: 'denied', reason: 'no' }])

  expect(reply.accepted).toEqual(['c1'])
  await expect(decided).resolves.toEqual({ outcome: 'denied', reason: 'no', value: undefined })
})

it('keeps a decision that comes before its call', async () => {
  const table = aTable()

  const reply = table.decide([release('c1')])

  expect(reply.unknown).toEqual(['c1'])
  await expect(table.expect('c1', never)).resolves.toMatchObject({ outcome: 'release' })
})

it('takes silence for a denial', async () => {
  const decided = aTable().expect('c1', never)

  await vi.advanceTimersByTimeAsync(30_000)

  await expect(decided).resolves.toMatchObject({ outcome: 'unanswered' })
})

it('waits for a person as long as pending says, and takes silence after it for a denial', async () => {
  const table = aTable()
  const decided = table.expect('c1', never)
  let settled = false
  void decided.then(() => {
    settled = true
  })
  table.decide([{ callId: 'c1', outcome: 'pending', until: new Date(Date.now() + 600_000).toISOString() }])

  await vi.advanceTimersByTimeAsync(629_000)
  expect(settled).toBe(false)
  await vi.advanceTimersByTimeAsync(2_000)

  await expect(decided).resolves.toMatchObject({ outcome: 'unanswered' })
})

it('keeps the first final outcome and rejects later conflicting ones', async () => {
  const table = aTable()
  const decided = table.expect('c1', never)
  table.decide([{ callId: 'c1', outcome: 'denied' }])

  expect(table.decide([release('c1')]).conflicting).toEqual(['c1'])
  expect(table.decide([{ callId: 'c1', outcome: 'denied' }]).accepted).toEqual(['c1'])
  expect(table.decide([{ callId: 'c1', outcome: 'pending' }]).conflicting).toEqual(['c1'])
  await expect(decided).resolves.toMatchObject({ outcome: 'denied' })
})

it('ends the wait of a cancelled call and lets no late release through', async () => {
  const table = aTable()
  const stop = new AbortController()
  const decided = table.expect('c1', stop.signal)

  stop.abort(new Error('cancelled'))

  await expect(decided).rejects.toThrow('cancelled')
  expect(table.decide([release('c1')]).conflicting).toEqual(['c1'])
})

it('bounds the decisions that it keeps for calls not made yet', () => {
  const table = aTable()

  table.decide(Array.from({ length: 1500 }, (_, i) => release(`c${i}`)))

  void table.expect('c0', never)
  expect(table.decide([release('c0')]).accepted, 'c0 was forgotten and waits').toEqual(['c0'])
})

it('agrees with the rule "the first final outcome stands" for any order of decisions', async () => {
  const outcome = fc.constantFrom(
    'release',
    'denied',
    'expired',
    'superseded',
    'policyDenied',
    'pending' as const,
  )
  await fc.assert(
    fc.asyncProperty(
      fc.array(outcome, { minLength: 1, maxLength: 8 }),
      fc.nat(8),
      async (outcomes, callAt) => {
        const table = aTable()
        let decided: Promise<{ outcome: string }> | undefined
        outcomes.forEach((next, index) => {
          if (index === callAt) decided = table.expect('c', never)
          table.decide([{ callId: 'c', outcome: next as CallDecision['outcome'] }])
        })
        decided ??= table.expect('c', never)
        const first = outcomes.find((next) => next !== 'pending') ?? 'unanswered'

        await vi.advanceTimersByTimeAsync(120_000)

        expect((await decided).outcome).toBe(first)
      },
    ),
    { numRuns: 200 },
  )
})
