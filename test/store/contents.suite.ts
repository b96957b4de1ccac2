import { createHash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import type { StoredCheckpoint } from '../../runtime/store/checkpoint.ts'
import type { Store } from '../../runtime/store/store.ts'
import { givenRun } from './rows.ts'
import { openAt, type StoreUnderTest, useStore } from './store-under-test.ts'

const MIB = 1_048_576
const HOUR_MS = 3_600_000
const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex')
const patterned = (length: number, step = 31) =>
  Uint8Array.from({ length }, (_, index) => (index * step) % 251)

async function* pieces(...parts: Uint8Array[]): AsyncGenerator<Uint8Array> {
  for (const part of parts) yield part
}

const bytesOf = async (chunks: AsyncIterable<Uint8Array>) => Buffer.concat(await Array.fromAsync(chunks))

const checkpointOf = (contents: readonly string[], change: Partial<StoredCheckpoint> = {}) => ({
  owner: 'ada',
  generation: 1,
  hostSequence: 5,
  policyVersion: 'p1',
  at: '2026-01-01T00:00:00.000Z',
  contents,
  ...change,
})

export function testContents(engine: StoreUnderTest): void {
  const write = (store: Store, bytes: Uint8Array, owner = 'ada') =>
    store.writeContent({ owner, maxBytes: 16 * MIB }, pieces(bytes))
  const commit = (store: Store, runId: string, checkpoint: StoredCheckpoint) =>
    store.transaction((tx) => tx.commitCheckpoint(runId, checkpoint))
  /** How many contents, and how many rows of bytes, the database has. */
  const place = async () => {
    const location = await engine.freshLocation()
    const store = await openAt(location)
    const execute = (sql: string) => engine.execute(location, sql)
    return {
      store,
      execute,
      count: (table: string) => engine.count(location, table),
      /** Lets time pass for contents. */
      age: (ms: number) => execute(`update contents set touched_ms = touched_ms - ${ms}`),
    }
  }
  /** A sweep at a time by which everything that a test stored is old. */
  const sweep = (store: Store) =>
    store.sweep({ endedBefore: '2000-01-01T00:00:00.000Z', now: new Date(), limit: 100 })

  describe('contents', () => {
    const store = useStore(engine)

    it.each([0, 1, MIB, 2 * MIB + 7])('returns %i bytes unchanged, whole and in part', async (length) => {
      const bytes = patterned(length)

      const written = await write(store(), bytes)

      expect(written).toMatchObject({ sha256: sha256(bytes), bytes: length })
      expect((await bytesOf(await store().readContent('ada', written.sha256))).equals(bytes)).toBe(true)
      const start = Math.floor(length / 2)
      const part = await bytesOf(
        await store().readContent('ada', written.sha256, { range: { start, length: 5 } }),
      )
      expect(part.equals(bytes.subarray(start, start + 5))).toBe(true)
    })

    it('stores equal content of one owner once, and does not share it between owners', async () => {
      const { store, count } = await place()
      const bytes = patterned(100)

      expect((await write(store, bytes)).isNew).toBe(true)
      expect((await write(store, bytes)).isNew).toBe(false)
      expect(await count('contents')).toBe(1)

      expect((await write(store, bytes, 'bob')).isNew).toBe(true)
      await expect(store.readContent('eve', sha256(bytes))).rejects.toMatchObject({ code: 'not_found' })
      await store.close()
    })

    it('stores equal content once when two writers store it at the same time', async () => {
      const { store, count } = await place()
      const writing = Array.from({ length: 8 }, () => write(store, patterned(100)))

      const written = await Promise.all(writing)

      expect(written.filter(({ isNew }) => isNew)).toHaveLength(1)
      expect(await count('contents')).toBe(1)
      await store.close()
    })

    it('adds up what an owner stores in contents and uploads, and nothing that is incomplete', async () => {
      const { store, execute } = await place()
      const runId = await givenRun(store)
      expect(await store.storedBytes('ada')).toBe(0)

      await write(store, patterned(100))
      await write(store, patterned(100))
      await write(store, patterned(7), 'bob')
      await store.writeBlob({ runId, name: 'workspace', maxBytes: 99 }, pieces(patterned(9)))
      const broken = async function* () {
        yield patterned(5)
        throw new Error('the sandbox is gone')
      }
      await expect(store.writeContent({ owner: 'ada', maxBytes: MIB }, broken())).rejects.toThrow('gone')

      expect(await store.storedBytes('ada')).toBe(109)
      await execute("update contents set state = 'deleting' where owner = 'ada'")
      expect(await store.storedBytes('ada')).toBe(9)
      await store.close()
    })

    it('leaves nothing of a source that fails or is too long', async () => {
      const { store, count } = await place()
      const broken = async function* () {
        yield patterned(2 * MIB)
        throw new Error('the sandbox is gone')
      }

      await expect(store.writeContent({ owner: 'ada', maxBytes: 16 * MIB }, broken())).rejects.toThrow('gone')
      const tooLong = store.writeContent({ owner: 'ada', maxBytes: 9 }, pieces(patterned(10)))
      await expect(tooLong).rejects.toMatchObject({ code: 'payload_too_large' })

      expect([await count('contents'), await count('content_chunks')]).toEqual([0, 0])
      await store.close()
    })
  })

  describe('checkpoints', () => {
    const store = useStore(engine)

    it('returns the last checkpoint with its contents', async () => {
      const runId = await givenRun(store())
      const [a, b] = [await write(store(), patterned(10)), await write(store(), patterned(11))]
      const workspace = { kind: 'manifest', sha256: a.sha256, tree: b.sha256 } as const
      const checkpoint = checkpointOf([a.sha256, b.sha256], { session: b.sha256, workspace })

      await commit(store(), runId, checkpoint)

      const stored = await store().readCheckpoint(runId)
      expect({ ...stored, contents: new Set(stored?.contents) }).toEqual({
        ...checkpoint,
        contents: new Set(checkpoint.contents),
      })
    })

    it('refuses a checkpoint whose content is not stored, is not complete, or is of another owner', async () => {
      const runId = await givenRun(store())
      const bobs = await write(store(), patterned(13), 'bob')

      for (const contents of [['f'.repeat(64)], [''], [bobs.sha256]]) {
        const committing = commit(store(), runId, checkpointOf(contents))
        await expect(committing).rejects.toMatchObject({ code: 'conflict' })
      }
      expect(await store().readCheckpoint(runId)).toBeUndefined()
    })

    it.each([
      ['an earlier event of the sandbox', { hostSequence: 4 }],
      ['an earlier sandbox', { generation: 0, hostSequence: 9 }],
    ])('refuses a checkpoint of %s', async (_what, change) => {
      const runId = await givenRun(store())
      const { sha256: content } = await write(store(), patterned(14))
      await commit(store(), runId, checkpointOf([content]))

      await expect(commit(store(), runId, checkpointOf([content], change))).rejects.toMatchObject({
        code: 'conflict',
      })
      await commit(store(), runId, checkpointOf([], { generation: 2, hostSequence: 0 }))
      expect(await store().readCheckpoint(runId)).toMatchObject({ generation: 2 })
    })

    it('replaces the uploaded archive', async () => {
      const runId = await givenRun(store())
      await store().writeBlob({ runId, name: 'workspace', maxBytes: 99 }, pieces(patterned(9)))

      await commit(store(), runId, checkpointOf([]))

      expect(await store().readBlob(runId, 'workspace')).toBeUndefined()
    })
  })

  describe('a copy of a checkpoint', () => {
    /** A run with a checkpoint of 30 bytes of files and 31 bytes of session, and a run for the copy. */
    async function givenOriginal(store: Store) {
      const [from, to] = [await givenRun(store), await givenRun(store)]
      const files = await write(store, patterned(30))
      const session = await write(store, patterned(31))
      const workspace = { kind: 'archive', sha256: files.sha256 } as const
      const parts = { workspace, session: session.sha256 }
      await commit(store, from, checkpointOf([files.sha256, session.sha256], parts))
      return { from, to, session }
    }

    it('stores no new bytes, and stays when the original is replaced', async () => {
      const { store, count, age } = await place()
      const { from, to, session } = await givenOriginal(store)

      await store.transaction((tx) => tx.copyCheckpoint(['workspace', 'session'], { from, to }))
      await commit(store, from, checkpointOf([], { generation: 2 }))
      await age(25 * HOUR_MS)
      await sweep(store)

      const copy = await store.readCheckpoint(to)
      expect(copy).toMatchObject({ generation: 0, hostSequence: 0, session: session.sha256 })
      expect((await bytesOf(await store.readContent('ada', copy?.workspace?.sha256 ?? ''))).length).toBe(30)
      expect((await bytesOf(await store.readContent('ada', session.sha256))).length).toBe(31)
      expect(await count('contents')).toBe(2)
      await store.close()
    })

    it('contains only the session if only the session is copied', async () => {
      const { store, age } = await place()
      const { from, to, session } = await givenOriginal(store)

      await store.transaction((tx) => tx.copyCheckpoint(['session'], { from, to }))

      expect(await store.readCheckpoint(to)).toMatchObject({ contents: [session.sha256] })
      expect((await store.readCheckpoint(to))?.workspace).toBeUndefined()
      await commit(store, from, checkpointOf([], { generation: 2 }))
      await age(25 * HOUR_MS)
      expect(await sweep(store)).toBe(1)
      await store.close()
    })

    it('is refused as a whole if one of its parts is missing', async () => {
      const { store } = await place()
      const [from, to] = [await givenRun(store), await givenRun(store)]
      const session = await write(store, patterned(31))
      await commit(store, from, checkpointOf([session.sha256], { session: session.sha256 }))

      const copying = store.transaction((tx) => tx.copyCheckpoint(['workspace', 'session'], { from, to }))

      await expect(copying).rejects.toMatchObject({ code: 'conflict' })
      expect(await store.readCheckpoint(to)).toBeUndefined()
      await store.close()
    })
  })

  describe('the sweep', () => {
    it('deletes contents a day after their last use, and none that a checkpoint has', async () => {
      const { store, count, age } = await place()
      const runId = await givenRun(store)
      const used = await write(store, patterned(20))
      const unused = await write(store, patterned(21))
      await commit(store, runId, checkpointOf([used.sha256]))

      await age(23 * HOUR_MS)
      expect(await sweep(store)).toBe(0)
      await age(2 * HOUR_MS)
      expect(await sweep(store)).toBe(1)

      await expect(store.readContent('ada', unused.sha256)).rejects.toMatchObject({ code: 'not_found' })
      expect((await bytesOf(await store.readContent('ada', used.sha256))).length).toBe(20)
      expect(await count('contents')).toBe(1)
      // The content of a replaced checkpoint was used until now.
      await commit(store, runId, checkpointOf([]))
      expect(await sweep(store)).toBe(0)
      await age(25 * HOUR_MS)
      expect(await sweep(store)).toBe(1)
      expect(await count('contents')).toBe(0)
      await store.close()
    })

    it('deletes unused contents early if they exceed two gigabytes of one owner', async () => {
      const { store, count, age, execute } = await place()
      const runId = await givenRun(store)
      const used = await write(store, patterned(20))
      await commit(store, runId, checkpointOf([used.sha256]))
      await write(store, patterned(21))
      await write(store, patterned(22), 'bob')
      await execute("update contents set bytes = 3000000000 where owner = 'ada'")
      await age(HOUR_MS / 10)
      expect(await sweep(store)).toBe(0)

      await age(HOUR_MS / 2)

      expect(await sweep(store)).toBe(1)
      expect((await store.readCheckpoint(runId))?.contents).toEqual([used.sha256])
      expect(await count('contents')).toBe(2)
      await store.close()
    })

    it('deletes at most the given number', async () => {
      const { store, count, age } = await place()
      for (const length of [1, 2, 3]) await write(store, patterned(length))
      await age(25 * HOUR_MS)

      await store.sweep({ endedBefore: '2000-01-01T00:00:00.000Z', now: new Date(), limit: 2 })

      expect(await count('contents')).toBe(1)
      await store.close()
    })

    it('deletes checkpoints of runs that ended long ago, and none of other runs', async () => {
      const { store, count } = await place()
      const endedAt = '2026-01-02T00:00:00.000Z'
      const [ended, waits] = [await givenRun(store), await givenRun(store)]
      const { sha256: content } = await write(store, patterned(30))
      for (const runId of [ended, waits]) await commit(store, runId, checkpointOf([content]))
      await store.transaction((tx) => tx.changeRun(ended, { endedAt }))
      const given = { now: new Date(), limit: 100 }

      await store.sweep({ ...given, endedBefore: endedAt })
      expect(await count('checkpoints')).toBe(2)
      await store.sweep({ ...given, endedBefore: '2026-01-02T00:00:01.000Z' })

      expect(await store.readCheckpoint(ended)).toBeUndefined()
      expect(await store.readCheckpoint(waits)).toMatchObject({ contents: [content] })
      await store.close()
    })

    it('deletes idempotency keys after a day', async () => {
      const { store, count } = await place()
      const createdAt = '2026-01-01T00:00:00.000Z'
      await store.writeIdempotencyKey({
        owner: 'ada',
        key: 'k',
        fingerprint: 'f',
        status: 200,
        body: '',
        createdAt,
      })
      const at = (now: string) =>
        store.sweep({ endedBefore: '2000-01-01T00:00:00.000Z', now: new Date(now), limit: 9 })

      expect(await at('2026-01-02T00:00:00.000Z')).toBe(0)
      expect(await at('2026-01-02T00:00:00.001Z')).toBe(1)
      expect(await count('idempotency_keys')).toBe(0)
      await store.close()
    })
  })
}
