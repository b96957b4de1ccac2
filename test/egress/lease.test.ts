import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { Lease } from '../../runtime/egress/cluster/lease.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

it('opens connections for a minute after a message, and closes the open ones a minute later', () => {
  let isOver = false
  const lease = new Lease({
    onOver: () => {
      isOver = true
    },
    now: () => Date.now(),
  })
  expect(lease.refusal?.rule).toBe('proxy-unavailable')

  lease.renew()
  vi.advanceTimersByTime(59_999)
  expect([lease.isHeld, isOver]).toEqual([true, false])
  vi.advanceTimersByTime(1)
  expect([lease.isHeld, lease.refusal?.rule, isOver]).toEqual([false, 'proxy-unavailable', false])
  vi.advanceTimersByTime(60_000)
  expect(isOver).toBe(true)
})

it('stays open while messages come', () => {
  let isOver = false
  const lease = new Lease({
    onOver: () => {
      isOver = true
    },
    now: () => Date.now(),
  })
  for (let round = 0; round < 30; round += 1) {
    lease.renew()
    vi.advanceTimersByTime(10_000)
  }
  expect([lease.isHeld, isOver]).toEqual([true, false])
})
