import { sql } from 'kysely'
import { toText } from '../codec.ts'
import type { Scope } from '../engine.ts'
import type { OverdueQuery } from '../queue.ts'
import type { RestrictionRow } from '../service-rows.ts'
import { WAITS } from './queue.ts'

/** The next sweep ends the run. */
export async function expireInQueue({ db }: Scope, runId: string): Promise<void> {
  await db
    .updateTable('queue')
    .set({ deadline_from_ms: 0 })
    .where('run_id', '=', runId)
    .where(WAITS)
    .execute()
}

/** Starts the deadlines of waiting runs again. Those that are to end keep theirs. */
export async function restartQueueDeadlines(
  { db, engine }: Scope,
  scope: RestrictionRow['scope'],
): Promise<void> {
  let update = db
    .updateTable('queue')
    .set({ deadline_from_ms: engine.nowMs })
    .where(WAITS)
    .where('deadline_from_ms', '>', 0)
  if (scope.kind === 'run') update = update.where('run_id', '=', scope.id)
  if (scope.kind === 'owner') update = update.where('owner', '=', toText(scope.owner))
  await update.execute()
}

/** Runs that have waited for their first sandbox for longer than `afterMs`. */
export async function listOverdueInQueue(
  { db, engine }: Scope,
  { afterMs, limit, without }: OverdueQuery,
): Promise<string[]> {
  let overdue = db
    .selectFrom('queue')
    .select('run_id')
    .where(WAITS)
    .where('deadline_from_ms', '<=', sql<number>`${engine.nowMs} - ${sql.lit(Math.round(afterMs))}`)
    .orderBy('deadline_from_ms')
    .limit(limit)
  // 0: the run is to end, whether it may start or not.
  if (without)
    overdue = overdue.where(({ eb, or, and }) =>
      or([
        eb('deadline_from_ms', '=', 0),
        and([
          ...(without.all ? [sql<boolean>`1 = 0`] : []),
          ...(without.owners.length > 0 ? [eb('owner', 'not in', without.owners.map(toText))] : []),
          ...(without.runIds.length > 0 ? [eb('run_id', 'not in', without.runIds)] : []),
        ]),
      ]),
    )
  const rows = await overdue.execute()
  return rows.map(({ run_id }) => run_id)
}
