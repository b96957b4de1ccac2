import { toText } from '../codec.ts'
import type { Scope } from '../engine.ts'
import type { PushedBranch, PushTransaction } from '../pushes.ts'

/** As many as a message to the proxies holds for one sandbox. */
const MAX_BRANCHES = 100

export async function listPushed({ db }: Scope, runId: string): Promise<PushedBranch[]> {
  const rows = await db
    .selectFrom('pushed_branches')
    .select(['repository', 'ref', 'commit_id'])
    .where('run_id', '=', toText(runId))
    .orderBy('at')
    .orderBy('ref')
    .execute()
  return rows.map(({ repository, ref, commit_id: commit }) => ({ repository, ref, commit }))
}

/** By run. */
export async function listPushedOf(
  { db }: Scope,
  runIds: readonly string[],
): Promise<ReadonlyMap<string, PushedBranch[]>> {
  if (runIds.length === 0) return new Map()
  const rows = await db
    .selectFrom('pushed_branches')
    .select(['run_id', 'repository', 'ref', 'commit_id'])
    .where('run_id', 'in', [...new Set(runIds)])
    .orderBy('at')
    .orderBy('ref')
    .execute()
  return Map.groupBy(
    rows.map(({ run_id: runId, repository, ref, commit_id: commit }) => ({ runId, repository, ref, commit })),
    ({ runId }) => runId,
  )
}

export const pushTransaction = (scope: Scope): PushTransaction => ({
  async recordPushed(runId, { repository, ref, commit, at }) {
    const { db } = scope
    const row = { run_id: toText(runId), repository, ref, commit_id: commit, at }
    await db
      .insertInto('pushed_branches')
      .values(row)
      .onConflict((conflict) =>
        conflict.columns(['run_id', 'repository', 'ref']).doUpdateSet({ commit_id: commit, at }),
      )
      .execute()
    const all = await listPushed(scope, runId)
    for (const old of all.slice(0, Math.max(0, all.length - MAX_BRANCHES)))
      await db
        .deleteFrom('pushed_branches')
        .where('run_id', '=', row.run_id)
        .where('repository', '=', old.repository)
        .where('ref', '=', old.ref)
        .execute()
  },
})
