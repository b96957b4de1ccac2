import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { sweepStored } from '../../runtime/api/runs/replicas/sweep-stored.ts'
import { silentLog } from '../../runtime/kit/log.ts'

const MINUTE_MS = 60_000
const DAY_MS = 86_400_000

beforeEach(() => vi.useFakeTimers({ now: new Date('2026-02-01T00:00:00.000Z') }))
afterEach(() => vi.useRealTimers())

/** A sweep over a store that still has so many rows to delete. */
function aSweep({ holds = true, rows = 0, fails = false } = {}) {
  let left = rows
  const sweeps: { endedBefore: string; limit: number }[] = []
  const store = {
    acquireLease: async () => holds,
    sweep: async (given: { endedBefore: string; limit: number }) => {
      sweeps.push(given)
      if (fails) throw new Error('the database is gone')
      const deleted = Math.min(left, given.limit)
      left -= deleted
      return deleted
    },
  }
  const deps = {
    store,
    limits: { suspendedRetentionMs: 30 * DAY_MS },
    holder: { id: 'h' },
    clock: () => new Date(),
    log: silentLog,
  }
  const sweeping = sweepStored(deps as unknown as Parameters<typeof sweepStored>[0])
  return { sweeps, sweeping, left: () => left }
}

describe('the sweep of stored data', () => {
  it('passes the retention to the store, once a minute', async () => {
    const { sweeps, sweeping } = aSweep()

    await vi.advanceTimersByTimeAsync(2 * MINUTE_MS)
    await sweeping.stop()

    expect(sweeps).toHaveLength(2)
    expect(sweeps[0]?.endedBefore).toBe('2026-01-02T00:01:00.000Z')
  })

  it('is left to another process that has the lease', async () => {
    const { sweeps, sweeping } = aSweep({ holds: false })

    await vi.advanceTimersByTimeAsync(2 * MINUTE_MS)
    await sweeping.stop()

    expect(sweeps).toEqual([])
  })

  it('continues in one round while there is more, up to a limit', async () => {
    const { sweeps, sweeping, left } = aSweep({ rows: 1_000_000 })

    await vi.advanceTimersByTimeAsync(MINUTE_MS)
    await sweeping.stop()

    expect(sweeps).toHaveLength(10)
    expect(left()).toBe(1_000_000 - 10 * (sweeps[0]?.limit ?? 0))
  })

  it('is tried again after an error', async () => {
    const { sweeps, sweeping } = aSweep({ fails: true })

    await vi.advanceTimersByTimeAsync(2 * MINUTE_MS)
    await sweeping.stop()

    expect(sweeps).toHaveLength(2)
  })
})
