import { createHash } from 'node:crypto'
import { setImmediate as turn } from 'node:timers/promises'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Store } from '../../runtime/store/store.ts'
import { givenRun } from './rows.ts'
import { openAt, type StoreUnderTest, useStore } from './store-under-test.ts'

const MIB = 1_048_576

async function* pieces(...parts: Uint8Array[]): AsyncGenerator<Uint8Array> {
  for (const part of parts) {
    await turn()
    yield part
  }
}
const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex')
const patterned = (length: number) => Uint8Array.from({ length }, (_, index) => (index * 31) % 251)

async function collect(chunks: AsyncIterable<Uint8Array> = pieces()): Promise<Uint8Array[]> {
  const collected: Uint8Array[] = []
  for await (const chunk of chunks) collected.push(chunk)
  return collected
}

async function contentOf(store: Store, runId: string): Promise<Buffer | undefined> {
  const blob = await store.readBlob(runId, 'workspace')
  return blob && Buffer.concat(await collect(blob.chunks))
}

export function testBlobs(engine: StoreUnderTest): void {
  describe('blobs', () => {
    const store = useStore(engine)
    const write = (runId: string, source: AsyncIterable<Uint8Array>, maxBytes = 16 * MIB) =>
      store().writeBlob({ runId, name: 'workspace', maxBytes }, source)

    it.each([0, 1, MIB - 1, MIB, MIB + 1, 3 * MIB + 7])(
      'gives %i bytes back as they came',
      async (length) => {
        const runId = await givenRun(store())
        const bytes = patterned(length)

        const written = await write(runId, pieces(bytes))

        expect(written).toEqual({ sha256: sha256(bytes), bytes: length })
        expect(await store().readBlob(runId, 'workspace')).toMatchObject(written)
        expect((await contentOf(store(), runId))?.equals(bytes)).toBe(true)
      },
    )

    it.each([0, 1, 17 * MIB + 5])('copies %i bytes to another run, which keeps them', async (length) => {
      const [from, to] = [await givenRun(store()), await givenRun(store())]
      const bytes = patterned(length)
      await write(from, pieces(bytes), 32 * MIB)

      await store().transaction((tx) => tx.copyCheckpoint(['workspace'], { from, to }))
      await write(from, pieces(patterned(3)))
      await store().deleteBlobs(from)

      expect((await contentOf(store(), to))?.equals(bytes)).toBe(true)
      expect(await contentOf(store(), from)).toBeUndefined()
    })

    it('copies nothing of a checkpoint of which a part does not exist', async () => {
      const [from, to] = [await givenRun(store()), await givenRun(store())]
      await write(from, pieces(patterned(9)))

      await expect(
        store().transaction((tx) => tx.copyCheckpoint(['workspace', 'session'], { from, to })),
      ).rejects.toMatchObject({ code: 'conflict' })

      expect(await contentOf(store(), to)).toBeUndefined()
    })

    it('does not depend on how the content was cut (property)', async () => {
      const runId = await givenRun(store())
      const lengths = fc.array(fc.integer({ min: 0, max: 700_000 }), { maxLength: 6 })
      const content = patterned(6 * 700_000)

      await fc.assert(
        fc.asyncProperty(lengths, async (cut) => {
          const total = cut.reduce((sum, length) => sum + length, 0)
          const ends = cut.map((_, index) => cut.slice(0, index + 1).reduce((sum, length) => sum + length, 0))
          await write(runId, pieces(...ends.map((end, index) => content.subarray(ends[index - 1] ?? 0, end))))
          expect((await contentOf(store(), runId))?.equals(content.subarray(0, total))).toBe(true)
        }),
        { numRuns: 10 },
      )
    })

    it('hands out chunks of at most 1 MiB', async () => {
      const runId = await givenRun(store())
      await write(runId, pieces(patterned(2 * MIB + 5)))

      const blob = await store().readBlob(runId, 'workspace')

      const sizes = (await collect(blob?.chunks)).map(({ length }) => length)
      expect(sizes).toEqual([MIB, MIB, 5])
    })

    it('keeps the two blobs of a run apart and deletes them together', async () => {
      const [runId, other] = [await givenRun(store()), await givenRun(store())]
      await write(runId, pieces(patterned(10)))
      await write(other, pieces(patterned(11)))
      await store().writeBlob({ runId, name: 'session', maxBytes: 100 }, pieces(patterned(12)))

      expect((await store().readBlob(runId, 'session'))?.bytes).toBe(12)
      await store().deleteBlobs(runId)

      expect(await store().readBlob(runId, 'workspace')).toBeUndefined()
      expect(await store().readBlob(runId, 'session')).toBeUndefined()
      expect((await store().readBlob(other, 'workspace'))?.bytes).toBe(11)
    })

    it('shows the old content until the new one is complete', async () => {
      const runId = await givenRun(store())
      await write(runId, pieces(patterned(5)))
      const { promise: mayEnd, resolve: end } = Promise.withResolvers<void>()
      const { promise: halfWay, resolve: reachHalf } = Promise.withResolvers<void>()

      const writing = write(
        runId,
        (async function* () {
          yield patterned(2 * MIB)
          reachHalf()
          await mayEnd
          yield patterned(1)
        })(),
      )
      await halfWay
      const during = await contentOf(store(), runId)
      end()
      await writing

      expect(during?.length).toBe(5)
      expect((await contentOf(store(), runId))?.length).toBe(2 * MIB + 1)
    })

    it('accepts exactly the limit, rejects one byte more, and keeps the previous content', async () => {
      const runId = await givenRun(store())
      await write(runId, pieces(patterned(2 * MIB)), 2 * MIB)

      const tooMuch = write(runId, pieces(patterned(2 * MIB), patterned(1)), 2 * MIB)

      await expect(tooMuch).rejects.toMatchObject({ code: 'payload_too_large' })
      expect((await contentOf(store(), runId))?.length).toBe(2 * MIB)
    })

    it('reports the error of a failed source and keeps the previous content', async () => {
      const runId = await givenRun(store())
      await write(runId, pieces(patterned(3)))

      const broken = write(
        runId,
        (async function* () {
          yield patterned(3 * MIB)
          throw new Error('connection reset')
        })(),
      )

      await expect(broken).rejects.toThrow('connection reset')
      expect((await contentOf(store(), runId))?.length).toBe(3)
    })

    it('leaves no chunk of what failed, was replaced or was deleted', async () => {
      const location = await engine.freshLocation()
      const own = await openAt(location)
      const runId = await givenRun(own)
      const put = (length: number) =>
        own.writeBlob({ runId, name: 'workspace', maxBytes: 2 * MIB }, pieces(patterned(length)))

      await put(2 * MIB)
      await put(MIB)
      await expect(put(2 * MIB + 1)).rejects.toThrow()
      expect(await engine.count(location, 'blob_chunks')).toBe(1)
      await own.deleteBlobs(runId)

      expect(await engine.count(location, 'blob_chunks')).toBe(0)
      expect(await engine.count(location, 'blobs')).toBe(0)
      await own.close()
    })

    it('rejects an upload if its run is cleaned during the upload', async () => {
      const runId = await givenRun(store())

      const writing = write(
        runId,
        (async function* () {
          yield patterned(10)
          await store().deleteBlobs(runId)
        })(),
      )

      await expect(writing).rejects.toMatchObject({ code: 'conflict' })
      expect(await store().readBlob(runId, 'workspace')).toBeUndefined()
    })

    it('ends a read with an error when the content is replaced under it', async () => {
      const runId = await givenRun(store())
      await write(runId, pieces(patterned(3 * MIB)))
      const blob = await store().readBlob(runId, 'workspace')

      const reading = (async () => {
        for await (const chunk of blob?.chunks ?? []) {
          if (chunk.length === MIB) await write(runId, pieces(patterned(1)))
        }
      })()

      await expect(reading).rejects.toMatchObject({ code: 'conflict' })
    })
  })
}
