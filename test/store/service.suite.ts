import { describe, expect, it } from 'vitest'
import { until } from '../helpers/until.ts'
import { aRun } from './rows.ts'
import { AWKWARD } from './runs.suite.ts'
import { openAt, type StoreUnderTest, useStore } from './store-under-test.ts'

const key = (over: object = {}) => ({
  owner: 'ada',
  key: 'key-1',
  fingerprint: 'f1',
  createdAt: '2026-01-02T00:00:00.000Z',
  ...over,
})

export function testService(engine: StoreUnderTest): void {
  describe('API keys, idempotency keys, settings and leases', () => {
    const store = useStore(engine)

    it('finds an API key by its hash', async () => {
      const row = {
        id: 'k1',
        hash: 'ab'.repeat(32),
        owner: AWKWARD,
        role: 'operator',
        createdAt: '2026-01-01T00:00:00.000Z',
      } as const
      const before = await store().countApiKeys()

      await store().insertApiKey(row)

      expect(await store().countApiKeys()).toBe(before + 1)
      expect(await store().readApiKey(row.hash)).toEqual(row)
      expect(await store().readApiKey('cd'.repeat(32))).toBeUndefined()
    })

    it('gives an idempotency key to one of many requests that come at once', async () => {
      const claims = await Promise.all(
        Array.from({ length: 6 }, () => store().claimIdempotencyKey(key({ key: 'race' }))),
      )

      expect(claims.filter(({ fresh }) => fresh)).toHaveLength(1)
    })

    it('answers the first request and its reply to a second one with the same key', async () => {
      await store().claimIdempotencyKey(key({ key: 'reply' }))

      const whilePending = await store().claimIdempotencyKey(key({ key: 'reply', fingerprint: 'f2' }))
      await store().finishIdempotencyKey('ada', 'reply', { status: 202, body: AWKWARD })
      const afterwards = await store().claimIdempotencyKey(key({ key: 'reply' }))
      const ofAnother = await store().claimIdempotencyKey(key({ key: 'reply', owner: 'eve' }))

      expect(whilePending).toEqual({ fresh: false, row: { ...key({ key: 'reply' }), state: 'pending' } })
      expect(afterwards).toEqual({
        fresh: false,
        row: { ...key({ key: 'reply' }), state: 'done', status: 202, body: AWKWARD },
      })
      expect(ofAnother).toEqual({ fresh: true })
    })

    it('frees an idempotency key whose request gave no answer, and one that is older than a day', async () => {
      await store().claimIdempotencyKey(key({ key: 'failed' }))
      await store().finishIdempotencyKey('ada', 'failed', undefined)
      await store().claimIdempotencyKey(key({ key: 'old' }))

      const retried = await store().claimIdempotencyKey(key({ key: 'failed' }))
      const sameDay = await store().claimIdempotencyKey(
        key({ key: 'old', createdAt: '2026-01-03T00:00:00.000Z' }),
      )
      const nextDay = await store().claimIdempotencyKey(
        key({ key: 'old', createdAt: '2026-01-03T00:00:00.001Z' }),
      )

      expect(retried).toEqual({ fresh: true })
      expect(sameDay).toMatchObject({ fresh: false })
      expect(nextDay).toEqual({ fresh: true })
    })

    it('keeps the last value of a setting', async () => {
      expect(await store().readSetting('policy')).toBeUndefined()

      await store().writeSetting('policy', 'first')
      await store().writeSetting('policy', AWKWARD)

      expect(await store().readSetting('policy')).toBe(AWKWARD)
    })

    it('gives a lease to one holder at a time, who may renew and release it', async () => {
      const ask = (holder: string) => store().acquireLease('reaper', holder, 60_000)

      const first = await Promise.all(['a', 'b', 'c'].map(ask))
      const holder = ['a', 'b', 'c'][first.indexOf(true)] as string
      const other = holder === 'a' ? 'b' : 'a'

      expect(first.filter(Boolean)).toHaveLength(1)
      expect(await ask(holder)).toBe(true)
      await store().releaseLease('reaper', other)
      expect(await ask(other)).toBe(false)
      await store().releaseLease('reaper', holder)
      expect(await ask(other)).toBe(true)
    })

    it('passes a lease on when its holder lets it run out', async () => {
      await store().acquireLease('short', 'a', 60_000)

      expect(await store().acquireLease('short', 'b', 60_000)).toBe(false)
      await store().acquireLease('short', 'a', 1)
      await until('the lease ran out', () => store().acquireLease('short', 'b', 60_000))
      expect(await store().acquireLease('short', 'a', 1)).toBe(false)
    })

    it('answers a ping while it is open and fails it after it was closed', async () => {
      const other = await openAt(await engine.freshLocation())
      await other.ping()

      await other.close()

      await expect(other.ping()).rejects.toThrow()
    })

    it('lets a transaction that is under way commit before it closes', async () => {
      const location = await engine.freshLocation()
      const other = await openAt(location)
      const { promise: mayEnd, resolve: end } = Promise.withResolvers<void>()
      const { promise: begun, resolve: begin } = Promise.withResolvers<void>()
      const run = aRun()
      const committed = other.transaction(async (tx) => {
        await tx.insertRun(run)
        begin()
        await mayEnd
      })
      await begun

      const closed = other.close()
      end()
      await Promise.all([committed, closed])

      const again = await openAt(location)
      expect(await again.readRun(run.id)).toMatchObject({ id: run.id })
      await again.close()
    })
  })
}
