import { type Kysely, sql } from 'kysely'
import { laneOf } from './queue.ts'
import type { Tables } from './schema.ts'

async function createQueue(db: Kysely<Tables>): Promise<void> {
  await db.schema
    .createTable('queue')
    .addColumn('run_id', 'text', (c) => c.primaryKey().references('runs.id'))
    .addColumn('lane', 'text', (c) => c.notNull())
    .addColumn('owner', 'text', (c) => c.notNull())
    .addColumn('queued_ms', 'bigint')
    .addColumn('place', 'integer')
    .addColumn('turn_ms', 'bigint')
    .addColumn('entered_ms', 'bigint')
    .addColumn('deadline_from_ms', 'bigint')
    .addColumn('not_before_ms', 'bigint', (c) => c.notNull())
    .addColumn('due_ms', 'bigint')
    .addColumn('attempts', 'integer', (c) => c.notNull())
    .execute()
  await sql`create index queue_heads on queue (lane, turn_ms, run_id) where place = 1`.execute(db)
  await sql`create unique index queue_head_of_owner on queue (lane, owner) where place = 1`.execute(db)
  await sql`create index queue_by_owner on queue (lane, owner, queued_ms, run_id)
    where place is not null`.execute(db)
  await sql`create index queue_by_deadline on queue (deadline_from_ms) where place is not null`.execute(db)
  await sql`create index queue_without_room on queue (lane, due_ms) where place is not null`.execute(db)
  await db.schema
    .createTable('queue_starts')
    .addColumn('lane', 'text', (c) => c.notNull())
    .addColumn('at_ms', 'bigint', (c) => c.notNull())
    .execute()
  await db.schema.createIndex('queue_starts_by_time').on('queue_starts').columns(['lane', 'at_ms']).execute()
}

/** Runs that have not ended. Those that waited for a sandbox keep their order, and no process drives them any more. */
async function queueEarlierRuns(db: Kysely<Tables>): Promise<void> {
  const runs = await db
    .selectFrom('runs')
    .select(['id', 'kind', 'owner', 'state', 'ends_with_service', 'created_at'])
    .where('state', 'not in', ['succeeded', 'failed', 'cancelled'])
    .orderBy('created_at')
    .orderBy('id')
    .execute()
  const lines = new Set<string>()
  for (const { id, kind, owner, state, ends_with_service, created_at } of runs) {
    const lane = laneOf({ kind, endsWithService: ends_with_service === 1 })
    const waits = state === 'queued' || state === 'pending_capacity'
    const isHead = waits && !lines.has(`${lane} ${owner}`)
    if (isHead) lines.add(`${lane} ${owner}`)
    const place = waits ? Number(isHead) : null
    const queued_ms = state === 'waiting_upload' ? null : Date.parse(created_at)
    await db
      .insertInto('queue')
      .values({
        run_id: id,
        lane,
        owner,
        queued_ms,
        turn_ms: queued_ms,
        place,
        not_before_ms: 0,
        attempts: 0,
      })
      .execute()
  }
  await sql`update runs set holder = null where state in ('queued', 'pending_capacity')`.execute(db)
}

export const QUEUE_MIGRATION = {
  name: 'the queue of runs that wait for a sandbox',
  async up(db: Kysely<Tables>): Promise<void> {
    await createQueue(db)
    await queueEarlierRuns(db)
  },
}
