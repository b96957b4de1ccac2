import { sql } from 'kysely'
import { toText } from '../codec.ts'
import type { Scope } from '../engine.ts'
import type { ReplicaRow, ReplicaStore } from '../figures.ts'
import { RowReader } from '../row-reader.ts'
import type { Write } from './blobs.ts'

/** Replicas that have not been seen for so long are deleted. */
const KEPT_MS = 3_600_000

export const replicaStore = (reading: Scope, write: Write): ReplicaStore => ({
  noteReplica: (replica) => write((scope) => noteReplica(scope, replica)),
  removeReplica: (id) =>
    write(async ({ db }) => {
      await db.deleteFrom('replicas').where('id', '=', id).execute()
    }),
  listReplicas: () => listReplicas(reading),
})

async function noteReplica(
  { db, engine }: Scope,
  { id, name, version }: Parameters<ReplicaStore['noteReplica']>[0],
): Promise<void> {
  const now = engine.nowMs
  await db
    .insertInto('replicas')
    .values({ id, name: toText(name), version: toText(version), started_ms: now, seen_ms: now })
    .onConflict((conflict) => conflict.column('id').doUpdateSet({ seen_ms: now }))
    .execute()
  const old = sql<number>`${engine.nowMs} - ${sql.lit(KEPT_MS)}`
  await db.deleteFrom('replicas').where('seen_ms', '<', old).execute()
}

async function listReplicas({ db, engine }: Scope): Promise<ReplicaRow[]> {
  const rows = await db
    .selectFrom('replicas')
    .select(['id', 'name', 'version', 'started_ms', 'seen_ms', engine.nowMs.as('now')])
    .orderBy('started_ms')
    .orderBy('id')
    .execute()
  return rows.map((row) => {
    const at = new RowReader('replicas', row)
    return {
      id: row.id,
      name: at.text('name'),
      version: at.text('version'),
      startedAt: new Date(Number(row.started_ms)).toISOString(),
      seenAt: new Date(Number(row.seen_ms)).toISOString(),
      silentMs: Math.max(0, Number(row.now) - Number(row.seen_ms)),
    }
  })
}
