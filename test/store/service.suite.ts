import { describe, expect, it } from 'vitest'
import type { ApiKeyRow, IdempotencyRow } from '../../runtime/store/service-rows.ts'
import { until } from '../helpers/until.ts'
import { aRun } from './rows.ts'
import { AWKWARD } from './runs.suite.ts'
import { openAt, type StoreUnderTest, useStore } from './store-under-test.ts'

const key = (over: Partial<IdempotencyRow> = {}): IdempotencyRow => ({
  owner: 'ada',
  key: 'key-1',
  fingerprint: 'f1',
  status: 202,
  body: 'null',
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

      await store().transaction((tx) => tx.insertApiKey(row))

      expect(await store().countApiKeys()).toBe(before + 1)
      expect(await store().readApiKey(row.hash)).toEqual(row)
      expect(await store().readApiKey('cd'.repeat(32))).toBeUndefined()
    })

    describe('of API keys', () => {
      const at = (day: number) => `2026-03-0${day}T00:00:00.000Z`
      const aKey = (id: string, over: Partial<ApiKeyRow> = {}): ApiKeyRow => ({
        ...{ id, hash: `hash of ${id}`, owner: `owner of ${id}`, role: 'approver', createdAt: at(1) },
        ...over,
      })
      const insertKeys = (...rows: ApiKeyRow[]) =>
        store().transaction(async (tx) => {
          for (const row of rows) await tx.insertApiKey(row)
        })

      it('keeps every field', async () => {
        const row = aKey('full', {
          ...{ name: AWKWARD, createdBy: AWKWARD, createdWith: 'k1', expiresAt: at(9), lastUsedAt: at(2) },
          ...{ revokedAt: at(3), revokedBy: AWKWARD },
        })
        await insertKeys(row)

        expect(await store().readApiKey(row.hash)).toEqual(row)
        expect(await store().transaction((tx) => tx.readApiKeyById('full'))).toEqual(row)
      })

      it('revokes a key once', async () => {
        await insertKeys(aKey('once'))
        const revoke = (by: string) => store().transaction((tx) => tx.revokeApiKey('once', { at: at(4), by }))

        expect([await revoke('ada'), await revoke('bob')]).toEqual([true, false])
        expect(await store().readApiKey('hash of once')).toMatchObject({ revokedAt: at(4), revokedBy: 'ada' })
        expect(await store().transaction((tx) => tx.revokeApiKey('absent', { at: at(4), by: 'a' }))).toBe(
          false,
        )
      })

      it('selects the keys that are neither revoked nor expired', async () => {
        const owner = 'selects'
        await insertKeys(
          aKey('s-active', { owner, createdWith: 's-creator' }),
          aKey('s-later', { owner, expiresAt: at(6), createdAt: at(2) }),
          aKey('s-expired', { owner, expiresAt: at(5), createdWith: 's-creator' }),
          aKey('s-revoked', { owner, revokedAt: at(2), createdWith: 's-creator' }),
        )
        const page = { now: at(5), limit: 10 }

        const [ofOwner, made] = await store().transaction(async (tx) => [
          await tx.listUsableApiKeys({ owner }, page),
          await tx.listUsableApiKeys({ createdWith: 's-creator' }, page),
        ])
        const ids = ['s-active', 's-later', 's-expired', 's-revoked', 's-absent']

        expect(ofOwner?.map(({ id }) => id)).toEqual(['s-active', 's-later'])
        expect(made?.map(({ id }) => id)).toEqual(['s-active'])
        expect(await store().listUnusableApiKeys(ids, at(5))).toEqual(['s-expired', 's-revoked', 's-absent'])
        expect(await store().listUnusableApiKeys([], at(5))).toEqual([])
      })

      it('lists the keys of an owner in pages, newest first', async () => {
        const owner = AWKWARD.concat('pages')
        await insertKeys(...['p1', 'p2', 'p3'].map((id, day) => aKey(id, { owner, createdAt: at(day + 1) })))

        const first = await store().listApiKeys({ owner, limit: 2 })
        const second = await store().listApiKeys({ owner, limit: 2, after: first.next ?? '' })

        expect(first.items.map(({ id }) => id)).toEqual(['p3', 'p2'])
        expect(second).toEqual({ items: [expect.objectContaining({ id: 'p1' })] })
        expect((await store().listApiKeys({ limit: 200 })).items.length).toBeGreaterThan(3)
        for (const query of [{ after: 'absent' }, { owner: 'another', after: 'p3' }])
          await expect(store().listApiKeys({ limit: 2, ...query })).rejects.toMatchObject({
            code: 'invalid_request',
          })
      })

      it('notes the last use, and never an earlier one', async () => {
        await insertKeys(aKey('used'))
        for (const day of [5, 3]) await store().noteApiKeyUse('used', at(day))

        expect(await store().readApiKey('hash of used')).toMatchObject({ lastUsedAt: at(5) })
      })
    })

    const now = new Date('2026-01-02T12:00:00.000Z')
    const insert = (over: Partial<IdempotencyRow>) =>
      store().transaction((tx) => tx.insertIdempotencyKey(key(over)))

    it('keeps the answer of one of many requests that come at once with one key', async () => {
      const inserted = await Promise.all(
        Array.from({ length: 6 }, (_, index) => insert({ key: 'race', body: `answer ${index}` })),
      )

      expect(inserted.filter(Boolean)).toHaveLength(1)
      expect(await store().readIdempotencyKey(key({ key: 'race' }), now)).toMatchObject({
        body: `answer ${inserted.indexOf(true)}`,
      })
    })

    it('keeps an answer for its owner, and replaces it by the final one', async () => {
      await insert({ key: 'reply', body: 'first' })
      await store().writeIdempotencyKey(key({ key: 'reply', body: AWKWARD }))

      expect(await store().readIdempotencyKey(key({ key: 'reply' }), now)).toEqual(
        key({ key: 'reply', body: AWKWARD }),
      )
      expect(await store().readIdempotencyKey(key({ key: 'reply', owner: 'eve' }), now)).toBeUndefined()
    })

    it('keeps no answer of a transaction that failed', async () => {
      const failing = store().transaction(async (tx) => {
        await tx.insertIdempotencyKey(key({ key: 'failed' }))
        throw new Error('the work failed')
      })

      await expect(failing).rejects.toThrow('the work failed')
      expect(await store().readIdempotencyKey(key({ key: 'failed' }), now)).toBeUndefined()
    })

    it('forgets an answer after a day', async () => {
      await insert({ key: 'old' })
      const later = (createdAt: string) => insert({ key: 'old', createdAt })

      expect(await later('2026-01-03T00:00:00.000Z')).toBe(false)
      expect(
        await store().readIdempotencyKey(key({ key: 'old' }), new Date('2026-01-03T00:00:00.001Z')),
      ).toBeUndefined()
      expect(await later('2026-01-03T00:00:00.001Z')).toBe(true)
    })

    it('keeps the last value of a setting', async () => {
      expect(await store().readSetting('policy')).toBeUndefined()

      await store().writeSetting('policy', 'first')
      await store().writeSetting('policy', AWKWARD)

      expect(await store().readSetting('policy')).toBe(AWKWARD)
    })

    it('gives a lease to one holder at a time, which may renew and release it', async () => {
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

    it('succeeds at a ping while it is open and fails after it was closed', async () => {
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
