import type { BlobStore } from '../blob-store.ts'
import { cutInto } from '../chunks.ts'
import type { Scope } from '../engine.ts'
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
    async *read(id, { start, length }) {
      let offset = start % CHUNK_BYTES
      let left = length
      for (let ordinal = Math.floor(start / CHUNK_BYTES); left > 0; ordinal += 1) {
        const chunk = await reading.db
          .selectFrom('content_chunks')
          .select('data')
          .where('content_id', '=', id)
          .where('ordinal', '=', ordinal)
          .executeTakeFirst()
        if (!chunk) return
        const piece = chunk.data.subarray(offset, offset + left)
        offset = 0
        left -= piece.length
        yield piece
      }
    },
    delete: (id) =>
      write(
        async ({ db }) => void (await db.deleteFrom('content_chunks').where('content_id', '=', id).execute()),
      ),
  }
}
