import { expect, it } from 'vitest'
import type { ShareDecision } from '../../contracts/egress-budgets.ts'
import { ByteAllowance } from '../../runtime/egress/allowance.ts'
import { EGRESS_LIMITS } from '../../runtime/egress/limits.ts'

const limits = { ...EGRESS_LIMITS, bytesBeyondShare: 10 }

/** Shares that the test grants one by one. */
function rig() {
  const asked: number[] = []
  const settled: number[] = []
  let answer = Promise.withResolvers<ShareDecision>()
  const take = (missing: number) => {
    asked.push(missing)
    return answer.promise
  }
  const allowance = new ByteAllowance({
    limits,
    left: 0,
    shares: { take, settle: (unused) => settled.push(unused) },
  })
  const next = () => {
    const { resolve, reject } = answer
    answer = Promise.withResolvers()
    return { resolve, reject }
  }
  const grant = async (granted: number, isLast = false) => {
    next().resolve({ granted, isLast })
    await new Promise(setImmediate)
  }
  const fail = async () => {
    next().reject(new Error('the API is away'))
    await new Promise(setImmediate)
  }
  return { allowance, asked, settled, grant, fail }
}

it('takes the next share when half of the last one is used, one at a time', async () => {
  const { allowance, asked, grant } = rig()
  allowance.refill(0)
  allowance.refill(3)
  expect(asked).toEqual([0])
  await grant(100)
  allowance.refill(49)
  expect(asked).toHaveLength(1)
  allowance.refill(50)
  allowance.refill(130)
  await grant(100)
  allowance.refill(215)
  expect(asked).toEqual([0, 0, 15])
})

it('is spent with its last share at once, and without an answer after some more bytes', async () => {
  const { allowance, grant, fail, asked } = rig()
  expect(allowance.isSpent(9)).toBe(false)
  expect(allowance.isSpent(10)).toBe(true)
  allowance.refill(0)
  await fail()
  allowance.refill(0)
  expect(asked, 'a failure is no answer').toHaveLength(2)
  await grant(100, true)
  expect([99, 100].map((bytes) => allowance.isSpent(bytes))).toEqual([false, true])
  allowance.refill(100)
  expect(asked).toHaveLength(2)
})

it('settles the rest once, also of a share that comes too late', async () => {
  const { allowance, settled, grant } = rig()
  allowance.refill(0)
  await grant(100)
  allowance.refill(95)
  allowance.close(97)
  allowance.close(97)
  await grant(100)
  expect(settled).toEqual([3, 100])
})

it('settles less than nothing if more has passed', async () => {
  const { allowance, settled, grant } = rig()
  allowance.refill(0)
  await grant(100, true)
  allowance.close(130)
  expect(settled).toEqual([-30])
})

it('is the whole rest for a process that serves a sandbox alone', () => {
  const allowance = new ByteAllowance({ limits, left: 50 })
  allowance.refill(49)
  expect([49, 50].map((bytes) => allowance.isSpent(bytes))).toEqual([false, true])
  allowance.close(20)
})
