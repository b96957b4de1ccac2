import { createHash, randomUUID } from 'node:crypto'
import { type RawBuilder, sql } from 'kysely'
import { SandboxError } from '../../kit/errors.ts'
import { type Again, once, type StoredBlob } from '../blob-store.ts'
import { cutInto } from '../chunks.ts'
import { toText } from '../codec.ts'
import type { Scope } from '../engine.ts'
import { reportingFault } from '../reporting-faults.ts'

const CHUNK_BYTES = 1_048_576
/** A writer touches its blob with every chunk; without a touch for this long, the writer counts as dead. */
const ABANDONED_AFTER_MS = 3_600_000

export interface NewBlob {
  readonly runId: string
  readonly name: string
  readonly maxBytes: number
}

/** Runs each chunk in a separate transaction, so that a slow upload never holds a lock. */
export type Write = <T>(work: (scope: Scope) => Promise<T>) => Promise<T>

export async function writeBlob(
  write: Write,
  blob: NewBlob,
  source: AsyncIterable<Uint8Array>,
): Promise<{ sha256: string; bytes: number }> {
  const id = randomUUID()
  await write((scope) => insertBlob(scope, id, blob))
  try {
    const content = await writeChunks(write, { id, maxBytes: blob.maxBytes }, source)
    await write((scope) => completeBlob(scope, { id, blob, content }))
    return content
  } catch (error) {
    await write(({ db }) => db.deleteFrom('blobs').where('id', '=', id).execute())
    throw error
  }
}

async function insertBlob({ db, engine }: Scope, id: string, { runId, name }: NewBlob): Promise<void> {
  await db
    .insertInto('blobs')
    .values({ id, run_id: runId, name, state: 'writing', sha256: '', bytes: 0, touched_ms: engine.nowMs })
    .execute()
}

async function writeChunks(
  write: Write,
  { id, maxBytes }: { id: string; maxBytes: number },
  source: AsyncIterable<Uint8Array>,
): Promise<{ sha256: string; bytes: number }> {
  const hash = createHash('sha256')
  let bytes = 0
  let ordinal = 0
  for await (const data of cutInto(CHUNK_BYTES, limited(source, maxBytes))) {
    hash.update(data)
    bytes += data.length
    const row = { blob_id: id, ordinal, data }
    await write(async (scope) => {
      await changeBlob(scope, id, { touched_ms: scope.engine.nowMs })
      await scope.db.insertInto('blob_chunks').values(row).execute()
    })
    ordinal += 1
  }
  return { sha256: hash.digest('hex'), bytes }
}

async function* limited(source: AsyncIterable<Uint8Array>, maxBytes: number): AsyncGenerator<Uint8Array> {
  let bytes = 0
  for await (const piece of source) {
    bytes += piece.length
    if (bytes > maxBytes) {
      throw new SandboxError('payload_too_large', `The content is larger than ${maxBytes} bytes.`)
    }
    yield piece
  }
}

interface Written {
  readonly id: string
  readonly blob: NewBlob
  readonly content: { sha256: string; bytes: number }
}

/** The moment of replacement: until here readers see the old blob, after it the new one. */
async function completeBlob(scope: Scope, { id, blob, content }: Written): Promise<void> {
  await scope.db
    .deleteFrom('blobs')
    .where('run_id', '=', blob.runId)
    .where('name', '=', blob.name)
    .where('state', '=', 'complete')
    .execute()
  await changeBlob(scope, id, { state: 'complete', ...content })
}

type BlobChange = {
  readonly state?: 'complete'
  readonly sha256?: string
  readonly bytes?: number
  readonly touched_ms?: RawBuilder<number>
}

async function changeBlob({ db }: Scope, id: string, change: BlobChange): Promise<void> {
  const { numUpdatedRows } = await db
    .updateTable('blobs')
    .set(change)
    .where('id', '=', id)
    .executeTakeFirstOrThrow()
  if (numUpdatedRows === 0n) {
    throw new SandboxError('conflict', 'The upload took too long, or its run was cleaned: send it again.')
  }
}

export async function readBlob(
  { db }: Scope,
  { runId, name, again = once }: { readonly runId: string; readonly name: string; readonly again?: Again },
): Promise<StoredBlob | undefined> {
  const blob = await db
    .selectFrom('blobs')
    .select(['id', 'sha256', 'bytes'])
    .where('run_id', '=', toText(runId))
    .where('name', '=', name)
    .where('state', '=', 'complete')
    .executeTakeFirst()
  if (!blob) return undefined
  return { sha256: blob.sha256, bytes: blob.bytes, chunks: readChunks(db, blob, again) }
}

async function* readChunks(
  db: Scope['db'],
  blob: { id: string; sha256: string; bytes: number },
  again: Again,
): AsyncGenerator<Uint8Array> {
  const hash = createHash('sha256')
  let bytes = 0
  for (let ordinal = 0; bytes < blob.bytes; ordinal += 1) {
    const query = db
      .selectFrom('blob_chunks')
      .select('data')
      .where('blob_id', '=', blob.id)
      .where('ordinal', '=', ordinal)
    const chunk = await again(() => reportingFault(() => query.executeTakeFirst()))
    if (!chunk)
      throw new SandboxError('conflict', 'The content was replaced while it was read: read it again.')
    hash.update(chunk.data)
    bytes += chunk.data.length
    yield chunk.data
  }
  if (bytes !== blob.bytes || hash.digest('hex') !== blob.sha256) {
    throw new SandboxError('internal', 'The stored content does not have the digest it was stored with.')
  }
}

export async function deleteBlobs({ db }: Scope, runId: string): Promise<void> {
  await db.deleteFrom('blobs').where('run_id', '=', runId).execute()
}

/** Removes what writers left behind that were killed in the middle. */
export async function deleteAbandonedBlobs({ db, engine }: Scope): Promise<void> {
  await db
    .deleteFrom('blobs')
    .where('state', '=', 'writing')
    .where('touched_ms', '<', sql<number>`${engine.nowMs} - ${sql.lit(ABANDONED_AFTER_MS)}`)
    .execute()
}
