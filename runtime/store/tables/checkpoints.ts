import { SandboxError } from '../../kit/errors.ts'
import type { CheckpointPart, StoredCheckpoint, StoredWorkspace } from '../checkpoint.ts'
import { present, toText } from '../codec.ts'
import { WorkspaceForms } from '../columns.ts'
import type { Scope } from '../engine.ts'
import { RowReader } from '../row-reader.ts'

/** Blobs that a checkpoint replaces: the uploaded archive, and the parts of a checkpoint of an earlier release. */
const REPLACED = ['workspace', 'session', 'next-workspace', 'next-session']

/** Databases limit the number of values of one statement. */
const ROWS_PER_INSERT = 1_000

export async function readCheckpoint({ db }: Scope, runId: string): Promise<StoredCheckpoint | undefined> {
  const row = await db
    .selectFrom('checkpoints')
    .selectAll()
    .where('run_id', '=', toText(runId))
    .executeTakeFirst()
  if (!row) return undefined
  const contents = await db
    .selectFrom('checkpoint_contents')
    .innerJoin('contents', 'contents.id', 'checkpoint_contents.content_id')
    .select('contents.sha256')
    .where('checkpoint_contents.run_id', '=', row.run_id)
    .execute()
  const at = new RowReader('checkpoints', row)
  return {
    owner: at.text('owner'),
    generation: at.integer('generation'),
    hostSequence: at.integer('host_sequence'),
    policyVersion: at.plain('policy_version'),
    at: at.plain('created_at'),
    contents: contents.map((content) => new RowReader('contents', content).plain('sha256')),
    ...present({ session: at.optionalPlain('session_sha256'), workspace: workspaceIn(at) }),
  }
}

function workspaceIn(at: RowReader<'checkpoints'>): StoredWorkspace | undefined {
  const kind = at.optionalOneOf('workspace_kind', WorkspaceForms)
  if (kind === undefined) return undefined
  const sha256 = at.plain('workspace_sha256')
  return { kind, sha256, ...present({ tree: at.optionalPlain('tree_sha256') }) }
}

/**
 * Puts a checkpoint in force. `conflict` if one of its contents is not complete, or if the checkpoint in force is of a later
 * moment of the run. The contents of the replaced checkpoint count as used until now.
 */
export async function commitCheckpoint(
  scope: Scope,
  runId: string,
  checkpoint: StoredCheckpoint,
): Promise<void> {
  const { db } = scope
  const { owner, generation, hostSequence, workspace, session } = checkpoint
  await refuseEarlier(scope, runId, checkpoint)
  const ids = await touchContents(scope, runId, checkpoint)
  await db.deleteFrom('checkpoint_contents').where('run_id', '=', runId).execute()
  const row = {
    run_id: runId,
    owner: toText(owner),
    generation,
    host_sequence: hostSequence,
    policy_version: checkpoint.policyVersion,
    created_at: checkpoint.at,
    workspace_kind: workspace?.kind ?? null,
    workspace_sha256: workspace?.sha256 ?? null,
    tree_sha256: workspace?.tree ?? null,
    session_sha256: session ?? null,
  }
  await db.deleteFrom('checkpoints').where('run_id', '=', runId).execute()
  await db.insertInto('checkpoints').values(row).execute()
  for (let first = 0; first < ids.length; first += ROWS_PER_INSERT) {
    const rows = ids.slice(first, first + ROWS_PER_INSERT).map((id) => ({ run_id: runId, content_id: id }))
    await db.insertInto('checkpoint_contents').values(rows).execute()
  }
  await keepBase(scope, runId)
  await db.deleteFrom('blobs').where('run_id', '=', runId).where('name', 'in', REPLACED).execute()
}

/** The uploaded archive stays as the base of the run's diff. */
async function keepBase({ db }: Scope, runId: string): Promise<void> {
  await db
    .updateTable('blobs')
    .set({ name: 'base' })
    .where('run_id', '=', runId)
    .where('name', '=', 'workspace')
    .where('state', '=', 'complete')
    .execute()
}

/** The copy names the same contents, so it copies no bytes. Its position is before the first own checkpoint of `to`. */
export async function copyCheckpoint(
  scope: Scope,
  parts: readonly CheckpointPart[],
  { from, to }: { from: string; to: string },
): Promise<void> {
  const stored = await readCheckpoint(scope, from)
  const isStored = (part: CheckpointPart) => {
    const content = part === 'session' ? stored?.session : stored?.workspace?.sha256
    return content !== undefined && stored?.contents.includes(content)
  }
  const missing = parts.find((part) => !isStored(part))
  if (!stored || missing)
    throw new SandboxError(
      'conflict',
      `The ${missing ?? 'content'} of the checkpoint of ${from} is not stored any more. Start a new run instead.`,
    )
  const { session, workspace, contents, ...rest } = stored
  const copy = {
    ...rest,
    generation: 0,
    hostSequence: 0,
    ...(parts.includes('session') && present({ session })),
    ...(parts.includes('workspace') && present({ workspace })),
  }
  // Only the manifest says which contents belong to the files, so a copy with the files keeps all contents.
  const needed = parts.includes('workspace') ? contents : [session].filter((sha256) => sha256 !== undefined)
  await commitCheckpoint(scope, to, { ...copy, contents: needed })
}

async function refuseEarlier(
  { db }: Scope,
  runId: string,
  { generation, hostSequence }: StoredCheckpoint,
): Promise<void> {
  const last = await db
    .selectFrom('checkpoints')
    .select(['generation', 'host_sequence'])
    .where('run_id', '=', runId)
    .executeTakeFirst()
  if (!last || generation > last.generation) return
  if (generation === last.generation && hostSequence >= last.host_sequence) return
  throw new SandboxError('conflict', `Run ${runId} has a later checkpoint.`)
}

/** Marks the contents of the checkpoint and of the last one as used now. Returns the ids of the contents of the checkpoint. */
async function touchContents(
  scope: Scope,
  runId: string,
  { owner, contents }: StoredCheckpoint,
): Promise<string[]> {
  const wanted = [...new Set(contents)]
  const found = await scope.db
    .selectFrom('contents')
    .select('id')
    .where('owner', '=', toText(owner))
    .where('sha256', 'in', wanted)
    .where('state', '=', 'complete')
    .execute()
  const ids = found.map(({ id }) => id)
  const touched = await touch(scope, [...ids, ...(await contentsOf(scope, runId))])
  if (ids.length < wanted.length || !ids.every((id) => touched.has(id)))
    throw new SandboxError('conflict', `A part of the checkpoint of run ${runId} is not stored.`)
  return ids
}

async function contentsOf({ db }: Scope, runId: string): Promise<string[]> {
  const rows = await db
    .selectFrom('checkpoint_contents')
    .select('content_id')
    .where('run_id', '=', runId)
    .execute()
  return rows.map(({ content_id }) => content_id)
}

/** In one order, so that two transactions never wait for each other. The locks keep the sweep from deleting the rows. */
async function touch({ db, engine }: Scope, ids: readonly string[]): Promise<ReadonlySet<string>> {
  const wanted = [...new Set(ids)]
  const complete = db
    .selectFrom('contents')
    .select('id')
    .where('id', 'in', wanted)
    .where('state', '=', 'complete')
    .orderBy('id')
  const locked = (await engine.lockRows(complete).execute()).map(({ id }) => id)
  await db.updateTable('contents').set({ touched_ms: engine.nowMs }).where('id', 'in', locked).execute()
  return new Set(locked)
}

/**
 * Deletes the checkpoints of runs that ended before `endedBefore`, and the uploads that such runs never replaced by a
 * checkpoint. Returns how many runs were affected, at most `limit`.
 */
export async function deleteOldCheckpoints(
  scope: Scope,
  endedBefore: string,
  limit: number,
): Promise<number> {
  const { db } = scope
  const checkpoints = await db
    .selectFrom('checkpoints')
    .innerJoin('runs', 'runs.id', 'checkpoints.run_id')
    .select('run_id')
    .where('checkpoints.created_at', '<', endedBefore)
    .where('runs.ended_at', '<', endedBefore)
    .limit(limit)
    .execute()
  for (const { run_id } of checkpoints) {
    await touch(scope, await contentsOf(scope, run_id))
    await db.deleteFrom('checkpoint_contents').where('run_id', '=', run_id).execute()
    await db.deleteFrom('checkpoints').where('run_id', '=', run_id).execute()
  }
  const blobs = await db
    .selectFrom('blobs')
    .innerJoin('runs', 'runs.id', 'blobs.run_id')
    .select('blobs.id')
    .where('blobs.state', '=', 'complete')
    .where('blobs.touched_ms', '<', Date.parse(endedBefore))
    .where('blobs.name', 'in', REPLACED)
    .where('runs.ended_at', '<', endedBefore)
    .limit(limit)
    .execute()
  for (const { id } of blobs) await db.deleteFrom('blobs').where('id', '=', id).execute()
  return checkpoints.length + blobs.length
}
