import type { BlobStore } from '../blob-store.ts'
import { cutInto } from '../chunks.ts'
import type { Scope } from '../engine.ts'
import { reportingFault } from '../reporting-faults.ts'
import type { Write } from './blobs.ts'

const CHUNK_BYTES = 1_048_576

/** Blobs as rows of at most 1 MiB, each written in a separate transaction, so that a slow source never holds a lock. */
export function blobChunks(reading: Scope, write: Write): BlobStore {
  return {
    async write(id, source) {
      let ordinal = 0
      for await (const data of cutInto(CHUNK_BYTES, source)) {
        const row = { content_id: id, ordinal, data }
        await write(async ({ db }) => void (await db.insertInto('content_chunks').values(row).execute()))
        ordinal += 1
      }
    },
    async *read(id, { start, length }, again) {
      let offset = start % CHUNK_BYTES
      let left = length
      for (let ordinal = Math.floor(start / CHUNK_BYTES); left > 0; ordinal += 1) {
        const query = reading.db
          .selectFrom('content_chunks')
          .select('data')
          .where('content_id', '=', id)
          .where('ordinal', '=', ordinal)
        const chunk = await again(() => reportingFault(() => query.executeTakeFirst()))
        if (!chunk) return
        const piece = chunk.data.subarray(offset, offset + left)
        offset = 0
        left -= piece.length
        yield piece
      }
    },
    async delete(id) {
      for (let deleted = SLICE; deleted === SLICE; ) deleted = await write((scope) => deleteSlice(scope, id))
    },
  }
}

/** Chunks per statement. A database cancels a statement that takes too long, and a content has up to 1,024 chunks. */
const SLICE = 64

async function deleteSlice({ db }: Scope, id: string): Promise<number> {
  const slice = db
    .selectFrom('content_chunks')
    .select('ordinal')
    .where('content_id', '=', id)
    .orderBy('ordinal')
    .limit(SLICE)
  const { numDeletedRows } = await db
    .deleteFrom('content_chunks')
    .where('content_id', '=', id)
    .where('ordinal', 'in', slice)
    .executeTakeFirstOrThrow()
  return Number(numDeletedRows)
}
