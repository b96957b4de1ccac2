import { SandboxError } from '../../kit/errors.ts'
import { toText } from '../codec.ts'
import type { Scope } from '../engine.ts'
import type { ErasureStore } from '../erasure-store.ts'
import type { Write } from './blobs.ts'
import { deleteUserCredentialsOf } from './user-credentials.ts'

/** Tables with rows of runs, children before their parents. The events are deleted before, in parts. */
const TABLES_OF_RUNS = [
  'checkpoint_contents',
  'checkpoints',
  'blobs',
  'egress_networks',
  'model_reservations',
  'pushed_branches',
  'queue',
  'claims',
  'calls',
  'approvals',
  'commands',
  'turns',
  'run_contributions',
  'events',
] as const

/** The newest first, so that an interrupted erasure leaves the beginning of the run. */
async function deleteEvents({ db }: Scope, runId: string, limit: number): Promise<number> {
  const newest = db
    .selectFrom('events')
    .select('sequence')
    .where('run_id', '=', toText(runId))
    .orderBy('sequence', 'desc')
    .limit(limit)
  const { numDeletedRows } = await db
    .deleteFrom('events')
    .where('run_id', '=', toText(runId))
    .where('sequence', 'in', newest)
    .executeTakeFirstOrThrow()
  return Number(numDeletedRows)
}

export async function eraseRun({ db }: Scope, id: string): Promise<number> {
  const runId = toText(id)
  const claim = await db
    .selectFrom('claims')
    .select('name')
    .where('run_id', '=', runId)
    .where('state', '!=', 'released')
    .executeTakeFirst()
  if (claim)
    throw new SandboxError(
      'conflict',
      `The sandbox of ${id} is still being deleted. Try again in a few minutes.`,
    )
  for (const table of TABLES_OF_RUNS) await db.deleteFrom(table).where('run_id', '=', runId).execute()
  await db.deleteFrom('restrictions').where('kind', '=', 'run').where('target', '=', runId).execute()
  const { numDeletedRows } = await db
    .deleteFrom('audit')
    .where('run_id', '=', runId)
    .executeTakeFirstOrThrow()
  await db.deleteFrom('runs').where('id', '=', runId).execute()
  return Number(numDeletedRows)
}

/** Stands for an erased person in the runs of others. No caller can be shown to be a different person. */
const ERASED = 'an erased person'

/** The rows stay, so that the person cannot come back and approve what the person had asked for. */
async function eraseContributor({ db }: Pick<Scope, 'db'>, owner: string): Promise<void> {
  const own = db.selectFrom('run_contributions').select(['run_id', 'key_id', 'how', 'at'])
  const rows = await own.where('person', '=', owner).execute()
  for (const row of rows)
    await db
      .insertInto('run_contributions')
      .values({ ...row, person: ERASED })
      .onConflict((conflict) => conflict.columns(['run_id', 'person', 'key_id']).doNothing())
      .execute()
  await db.deleteFrom('run_contributions').where('person', '=', owner).execute()
}

async function eraseOwner(scope: Scope, name: string): Promise<number> {
  const { db } = scope
  const owner = toText(name)
  await deleteUserCredentialsOf(scope, name)
  await db.deleteFrom('trusted_folders').where('owner', '=', owner).execute()
  await db.deleteFrom('idempotency_keys').where('owner', '=', owner).execute()
  await eraseContributor({ db }, owner)
  const used = db.selectFrom('checkpoint_contents').select('content_id')
  await db
    .updateTable('contents')
    .set({ state: 'deleting', owner: '' })
    .where('owner', '=', owner)
    .where('state', '=', 'complete')
    .where('id', 'not in', used)
    .execute()
  await db.updateTable('api_keys').set({ created_by: null }).where('created_by', '=', owner).execute()
  await db.updateTable('api_keys').set({ revoked_by: null }).where('revoked_by', '=', owner).execute()
  const { numDeletedRows } = await db
    .deleteFrom('api_keys')
    .where('owner', '=', owner)
    .executeTakeFirstOrThrow()
  return Number(numDeletedRows)
}

export const erasureStore = (write: Write): ErasureStore => ({
  deleteEvents: (runId, limit) => write((scope) => deleteEvents(scope, runId, limit)),
  eraseOwner: (owner) => write((scope) => eraseOwner(scope, owner)),
})
