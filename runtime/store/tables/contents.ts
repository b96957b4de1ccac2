import { createHash, randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { SandboxError } from '../../kit/errors.ts'
import { type Again, type BlobStore, type ByteRange, once } from '../blob-store.ts'
import type { WrittenContent } from '../checkpoint.ts'
import { toText } from '../codec.ts'
import { completeAll } from '../complete-all.ts'
import type { Engine, Scope } from '../engine.ts'
import type { Write } from './blobs.ts'

export interface NewContent {
  readonly owner: string
  readonly maxBytes: number
}

export interface ContentStore {
  readonly write: Write
  readonly blobs: BlobStore
}

/**
 * Stores content under its digest, once per owner. Owners do not share contents, because one could find out what another
 * one has. Content without a reference is deleted after a while (`sweepContents`).
 */
export async function writeContent(
  { write, blobs }: ContentStore,
  { owner, maxBytes }: NewContent,
  source: AsyncIterable<Uint8Array>,
): Promise<WrittenContent> {
  const id = randomUUID()
  await write((scope) => insertContent(scope, id, owner))
  try {
    const hash = createHash('sha256')
    let bytes = 0
    const counted = async function* () {
      for await (const piece of source) {
        bytes += piece.length
        if (bytes > maxBytes)
          throw new SandboxError('payload_too_large', `The content is larger than ${maxBytes} bytes.`)
        hash.update(piece)
        yield piece
      }
    }
    await blobs.write(id, counted())
    const facts = { id, owner, sha256: hash.digest('hex'), bytes }
    const isNew = await complete(write, facts)
    if (!isNew) await discard({ write, blobs }, id)
    return { sha256: facts.sha256, bytes, isNew }
  } catch (error) {
    await discard({ write, blobs }, id).catch(() => undefined)
    throw error
  }
}

async function insertContent({ db, engine }: Scope, id: string, owner: string): Promise<void> {
  await db
    .insertInto('contents')
    .values({ id, owner: toText(owner), state: 'writing', sha256: '', bytes: 0, touched_ms: engine.nowMs })
    .execute()
}

async function discard({ write, blobs }: ContentStore, id: string): Promise<void> {
  await blobs.delete(id)
  await write(async ({ db }) => void (await db.deleteFrom('contents').where('id', '=', id).execute()))
}

type Complete = {
  readonly id: string
  readonly owner: string
  readonly sha256: string
  readonly bytes: number
}

/** Of two writers of the same content, the second violates the index and finds the content of the first. */
async function complete(write: Write, facts: Complete): Promise<boolean> {
  const attempt = () => write((scope) => completeOrFind(scope, facts))
  return attempt().catch(attempt)
}

async function completeOrFind(
  { db, engine }: Scope,
  { id, owner, sha256, bytes }: Complete,
): Promise<boolean> {
  const found = await db
    .updateTable('contents')
    .set({ touched_ms: engine.nowMs })
    .where('owner', '=', toText(owner))
    .where('sha256', '=', sha256)
    .where('state', '=', 'complete')
    .executeTakeFirstOrThrow()
  if (found.numUpdatedRows > 0n) return false
  const { numUpdatedRows } = await db
    .updateTable('contents')
    .set({ state: 'complete', sha256, bytes, touched_ms: engine.nowMs })
    .where('id', '=', id)
    .where('state', '=', 'writing')
    .executeTakeFirstOrThrow()
  if (numUpdatedRows === 0n) throw new SandboxError('conflict', 'The content took too long to be stored.')
  return true
}

interface ContentReading {
  readonly owner: string
  readonly sha256: string
  readonly range?: ByteRange
  readonly again?: Again
}

/** The content of an owner with this digest, or a range of it. The digest of a whole content is verified. */
export async function readContent(
  { db }: Scope,
  blobs: BlobStore,
  { owner, sha256, range, again = once }: ContentReading,
): Promise<AsyncIterable<Uint8Array>> {
  const content = await db
    .selectFrom('contents')
    .select(['id', 'bytes'])
    .where('owner', '=', toText(owner))
    .where('sha256', '=', sha256)
    .where('state', '=', 'complete')
    .executeTakeFirst()
  if (!content) throw new SandboxError('not_found', 'The store does not have this content any more.')
  if (range) return blobs.read(content.id, range, again)
  return verified(blobs.read(content.id, { start: 0, length: content.bytes }, again), sha256)
}

async function* verified(source: AsyncIterable<Uint8Array>, sha256: string): AsyncGenerator<Uint8Array> {
  const hash = createHash('sha256')
  for await (const piece of source) {
    hash.update(piece)
    yield piece
  }
  if (hash.digest('hex') !== sha256)
    throw new SandboxError('internal', 'The stored content does not have the digest it was stored with.')
}

/** Complete contents, uploads and results of an owner. A content that several runs share counts once. */
export async function storedBytes({ db }: Scope, owner: string): Promise<number> {
  // Literals instead of parameters, so that the databases can use the partial indexes.
  const isComplete = sql<boolean>`state = 'complete'`
  const contents = db
    .selectFrom('contents')
    .select(({ fn }) => fn.sum<number | string | null>('bytes').as('bytes'))
    .where('owner', '=', toText(owner))
    .where(isComplete)
  const ofRuns = db.selectFrom('runs').select('id').where('owner', '=', toText(owner))
  const blobs = db
    .selectFrom('blobs')
    .select(({ fn }) => fn.sum<number | string | null>('bytes').as('bytes'))
    .where('run_id', 'in', ofRuns)
    .where(isComplete)
  const sums = await Promise.all([contents.executeTakeFirst(), blobs.executeTakeFirst()])
  return sums.reduce((total, row) => total + Number(row?.bytes ?? 0), 0)
}

const DAY_MS = 86_400_000
/** A writer that takes this long is dead. */
const ABANDONED_AFTER_MS = 3_600_000

/**
 * Deletes contents that nothing has referred to for a day, and what dead writers left. A content is marked first, so that a
 * process that dies in between loses nothing and leaves nothing. Returns how many were deleted, at most `limit`.
 */
export async function sweepContents(
  reading: Scope,
  { write, blobs }: ContentStore,
  limit: number,
): Promise<number> {
  await write((scope) => markUnused(scope, limit))
  const doomed = await reading.db
    .selectFrom('contents')
    .select('id')
    .where('state', '=', 'deleting')
    .limit(limit)
    .execute()
  // One content that cannot be deleted now must not keep the others.
  return completeAll(
    doomed.map(({ id }) => async () => {
      await discard({ write, blobs }, id)
      return 1
    }),
  )
}

/**
 * Unused bytes of one owner that may wait for a day. An agent can replace a large workspace again and again; above this,
 * contents are deleted as soon as no reader can still need them: a restore takes ten minutes at most.
 */
const MAX_UNUSED_BYTES = 2_147_483_648
const READERS_DONE_AFTER_MS = 900_000

async function markUnused(scope: Scope, limit: number): Promise<void> {
  const { db, engine } = scope
  for (const owner of await wastefulOwners(scope)) {
    await markOlder(scope, { olderThanMs: READERS_DONE_AFTER_MS, owner, limit })
  }
  await markOlder(scope, { olderThanMs: DAY_MS, limit })
  await db
    .updateTable('contents')
    .set({ state: 'deleting' })
    .where('state', '=', 'writing')
    .where('touched_ms', '<', ago(engine, ABANDONED_AFTER_MS))
    .execute()
}

const ago = (engine: Engine, ms: number) => sql<number>`${engine.nowMs} - ${sql.lit(ms)}`

const unused = ({ db, engine }: Scope, olderThanMs: number) =>
  db
    .selectFrom('contents')
    .where('state', '=', 'complete')
    .where('touched_ms', '<', ago(engine, olderThanMs))
    .where(({ not, exists, selectFrom }) =>
      not(
        exists(
          selectFrom('checkpoint_contents')
            .select('content_id')
            .whereRef('checkpoint_contents.content_id', '=', 'contents.id'),
        ),
      ),
    )

/** As the column has them. */
async function wastefulOwners(scope: Scope): Promise<string[]> {
  const rows = await unused(scope, READERS_DONE_AFTER_MS)
    .select('owner')
    .groupBy('owner')
    .having(({ fn }) => fn.sum('bytes'), '>', MAX_UNUSED_BYTES)
    .execute()
  return rows.map(({ owner }) => owner)
}

type Older = { readonly olderThanMs: number; readonly limit: number; readonly owner?: string }

async function markOlder(scope: Scope, { olderThanMs, limit, owner }: Older): Promise<void> {
  const { db, engine } = scope
  const all = unused(scope, olderThanMs)
  const old = await (owner === undefined ? all : all.where('owner', '=', owner))
    .select('id')
    .limit(limit)
    .execute()
  await db
    .updateTable('contents')
    .set({ state: 'deleting' })
    .where(
      'id',
      'in',
      old.map(({ id }) => id),
    )
    // A checkpoint that was committed since then touched its contents.
    .where('state', '=', 'complete')
    .where('touched_ms', '<', ago(engine, olderThanMs))
    .execute()
}
