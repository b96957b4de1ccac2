import { type Selectable, sql } from 'kysely'
import type { RunState } from '../../../contracts/api.ts'
import { SandboxError } from '../../kit/errors.ts'
import {
  changed,
  fromJson,
  fromOptionalJson,
  fromText,
  present,
  toJson,
  toOptionalJson,
  toText,
} from '../codec.ts'
import type { Scope } from '../engine.ts'
import type { Tables } from '../schema.ts'
import {
  HOLDER_LEASE,
  type NewRun,
  type RunChange,
  type RunCount,
  type RunFilter,
  type RunRow,
  type RunUsage,
} from '../store.ts'
import { followState, insertQueueRow } from './queue.ts'

const NO_USAGE: RunUsage = { steps: 0, model_requests: 0, tokens: 0, event_bytes: 0, wall_seconds: 0 }

type Row = Selectable<Tables['runs']>

const toRun = (row: Row): RunRow => ({
  ...present({
    sandbox: fromOptionalJson<NonNullable<RunRow['sandbox']>>(row.sandbox_json),
    failure: fromOptionalJson<NonNullable<RunRow['failure']>>(row.failure_json),
    outcome: fromOptionalJson<NonNullable<RunRow['outcome']>>(row.outcome_json),
    startedAt: row.started_at,
    firstEventAt: row.first_event_at,
    endedAt: row.ended_at,
    checkpointAt: row.checkpoint_at,
    holder: row.holder,
    ending: fromOptionalJson<object>(row.ending_json),
    usedAt: row.used_at,
    suspendAskedAt: row.suspend_asked_at,
    waiting: fromOptionalJson<NonNullable<RunRow['waiting']>>(row.waiting_json),
    checkpoint: fromOptionalJson<NonNullable<RunRow['checkpoint']>>(row.checkpoint_json),
    source: fromOptionalJson<NonNullable<RunRow['source']>>(row.source_json),
  }),
  carriedCalls: fromOptionalJson<string[]>(row.carried_calls_json) ?? [],
  losses: row.losses,
  endsWithService: row.ends_with_service === 1,
  id: row.id,
  kind: row.kind,
  owner: fromText(row.owner),
  state: row.state as RunState,
  task: fromText(row.task),
  workspace: fromJson<RunRow['workspace']>(row.workspace_json),
  agent: fromJson<RunRow['agent']>(row.agent_json),
  agentSpec: fromJson<unknown>(row.agent_spec_json),
  labels: fromJson<RunRow['labels']>(row.labels_json),
  settings: fromJson<RunRow['settings']>(row.settings_json),
  interactive: row.interactive === 1,
  generation: row.generation,
  policyVersion: row.policy_version,
  keyId: row.key_id,
  lastSequence: row.last_sequence,
  hostSequence: row.host_sequence,
  hostReread: row.host_reread,
  activeMs: row.active_ms,
  usage: { ...NO_USAGE, ...fromOptionalJson<Partial<RunUsage>>(row.usage_json) },
  touched: { secret: row.touched_secret === 1 },
  createdAt: row.created_at,
})

export async function insertRun(scope: Scope, run: NewRun): Promise<RunRow> {
  const row = {
    id: run.id,
    kind: run.kind,
    owner: toText(run.owner),
    state: run.state,
    task: toText(run.task),
    workspace_json: toJson(run.workspace),
    agent_json: toJson(run.agent),
    agent_spec_json: toJson(run.agentSpec),
    labels_json: toJson(run.labels),
    settings_json: toJson(run.settings),
    interactive: run.interactive ? 1 : 0,
    generation: 0,
    sandbox_json: toOptionalJson(run.sandbox),
    failure_json: toOptionalJson(run.failure),
    outcome_json: toOptionalJson(run.outcome),
    policy_version: run.policyVersion,
    key_id: run.keyId,
    last_sequence: 0,
    host_sequence: 0,
    host_reread: 0,
    audit_count: 0,
    audit_mac: '',
    created_at: new Date().toISOString(),
    started_at: run.startedAt ?? null,
    first_event_at: run.firstEventAt ?? null,
    ended_at: run.endedAt ?? null,
    checkpoint_at: run.checkpointAt ?? null,
    holder: run.holder ?? null,
    ending_json: null,
    used_at: null,
    active_ms: 0,
    waiting_json: null,
    checkpoint_json: null,
    carried_calls_json: null,
    losses: 0,
    ends_with_service: run.endsWithService ? 1 : 0,
    suspend_asked_at: null,
    usage_json: null,
    touched_secret: run.touched?.secret ? 1 : 0,
    source_json: toOptionalJson(run.source),
  }
  await scope.db.insertInto('runs').values(row).execute()
  await insertQueueRow(scope, run)
  return toRun(row)
}

export async function readRun({ db }: Scope, id: string): Promise<RunRow | undefined> {
  const row = await db.selectFrom('runs').selectAll().where('id', '=', toText(id)).executeTakeFirst()
  return row && toRun(row)
}

export async function lockIfFree({ db, engine }: Scope, id: string): Promise<boolean> {
  const query = db.selectFrom('runs').select('id').where('id', '=', toText(id))
  return (await engine.lockFreeRows(query).executeTakeFirst()) !== undefined
}

export async function readAndLockRun(scope: Scope, id: string): Promise<RunRow | undefined> {
  const row = await selectForWriting(scope, id)
  return row && toRun(row)
}

/** The run's row, held against other writers until the transaction ends: the order of events and of the audit. */
export async function lockRun(scope: Scope, id: string): Promise<Row> {
  const row = await selectForWriting(scope, id)
  if (!row) throw new SandboxError('not_found', `There is no run ${id}.`)
  return row
}

function selectForWriting({ db, engine }: Scope, id: string): Promise<Row | undefined> {
  const query = db.selectFrom('runs').selectAll().where('id', '=', toText(id))
  return engine.lockRows(query).executeTakeFirst()
}

/** A new generation starts with host sequence 0. Within a generation, the host sequence never decreases. */
export async function changeRun({ db }: Scope, id: string, change: RunChange): Promise<void> {
  const columns = columnsOf(change)
  if (Object.keys(columns).length > 0) {
    await db.updateTable('runs').set(columns).where('id', '=', id).execute()
  }
  await raiseHostSequence(db, id, change)
}

type StateMove = { readonly from: RunState; readonly to: RunState; readonly facts: RunChange }

/** Compare and set: if the stored state is not the expected state, nothing changes. */
export async function changeRunState(
  scope: Scope,
  id: string,
  { from, to, facts }: StateMove,
): Promise<void> {
  const { db } = scope
  const { numUpdatedRows } = await db
    .updateTable('runs')
    .set({ state: to, ...columnsOf(facts) })
    .where('id', '=', id)
    .where('state', '=', from)
    .executeTakeFirst()
  if (numUpdatedRows === 0n) throw new SandboxError('conflict', `Run ${id} is not ${from} any more.`)
  await raiseHostSequence(db, id, facts)
  await followState(scope, id, { from, to })
}

async function raiseHostSequence(db: Scope['db'], id: string, change: RunChange): Promise<void> {
  if (change.generation !== undefined || change.hostSequence === undefined) return
  await db
    .updateTable('runs')
    .set({ host_sequence: change.hostSequence })
    .where('id', '=', id)
    .where('host_sequence', '<', change.hostSequence)
    .execute()
}

const waitingColumn = (waiting: RunChange['waiting']) =>
  waiting === null ? null : (toOptionalJson(waiting) ?? undefined)

/** The flag is never cleared. */
const secretColumn = (touched: RunChange['touched']) => (touched?.secret ? 1 : undefined)

const columnsOf = (change: RunChange) =>
  changed({
    generation: change.generation,
    sandbox_json: toOptionalJson(change.sandbox) ?? undefined,
    failure_json: toOptionalJson(change.failure) ?? undefined,
    outcome_json: toOptionalJson(change.outcome) ?? undefined,
    started_at: change.startedAt,
    first_event_at: change.firstEventAt,
    ended_at: change.endedAt,
    checkpoint_at: change.checkpointAt,
    holder: change.holder,
    used_at: change.usedAt,
    active_ms: change.activeMs,
    waiting_json: waitingColumn(change.waiting),
    checkpoint_json: toOptionalJson(change.checkpoint) ?? undefined,
    carried_calls_json: toOptionalJson(change.carriedCalls) ?? undefined,
    losses: change.losses,
    suspend_asked_at: change.suspendAskedAt,
    usage_json: toOptionalJson(change.usage) ?? undefined,
    host_reread: change.generation === undefined ? change.hostReread : 0,
    host_sequence: change.generation === undefined ? undefined : (change.hostSequence ?? 0),
    ending_json: toOptionalJson(change.ending) ?? undefined,
    touched_secret: secretColumn(change.touched),
  })

/** Newest first. */
export async function listRuns(scope: Scope, filter: RunFilter): Promise<{ items: RunRow[]; next?: string }> {
  const after = filter.after === undefined ? undefined : await positionOf(scope, filter.after)
  let query = scope.db
    .selectFrom('runs')
    .selectAll()
    .orderBy('created_at', 'desc')
    .orderBy('id', 'desc')
    .limit(filter.limit + 1)
  if (filter.owner !== undefined) query = query.where('owner', '=', toText(filter.owner))
  if (filter.kind !== undefined) query = query.where('kind', '=', filter.kind)
  if (filter.states !== undefined) query = query.where('state', 'in', filter.states)
  if (filter.createdBefore !== undefined) query = query.where('created_at', '<', filter.createdBefore)
  if (after) {
    query = query.where(({ eb, refTuple, tuple }) =>
      eb(refTuple('created_at', 'id'), '<', tuple(after.created_at, after.id)),
    )
  }
  const rows = await query.execute()
  const items = rows.slice(0, filter.limit).map(toRun)
  const last = items.at(-1)
  return rows.length > filter.limit && last ? { items, next: last.id } : { items }
}

async function positionOf({ db }: Scope, id: string): Promise<{ created_at: string; id: string }> {
  const row = await db
    .selectFrom('runs')
    .select(['created_at', 'id'])
    .where('id', '=', toText(id))
    .executeTakeFirst()
  if (!row)
    throw new SandboxError('invalid_request', 'The cursor `after` names no run: start from the first page.')
  return row
}

/** The runs that no live process drives, oldest first. */
export async function listAbandonedRuns(
  { db, engine }: Scope,
  states: readonly RunState[],
  limit: number,
): Promise<RunRow[]> {
  const rows = await db
    .selectFrom('runs')
    .selectAll('runs')
    .leftJoin('leases', (join) =>
      join
        .on('leases.name', '=', sql<string>`${sql.lit(HOLDER_LEASE)} || ${sql.ref('runs.holder')}`)
        .on('leases.expires_ms', '>', engine.nowMs),
    )
    .where('runs.state', 'in', states)
    .where('leases.name', 'is', null)
    .orderBy('runs.created_at')
    .orderBy('runs.id')
    .limit(limit)
    .execute()
  return rows.map(toRun)
}

export async function countRuns({ db }: Scope, filter: RunCount): Promise<number> {
  let query = db
    .selectFrom('runs')
    .select(({ fn }) => fn.countAll().as('count'))
    .where('state', 'in', filter.states)
  if (filter.owner !== undefined) query = query.where('owner', '=', toText(filter.owner))
  return Number((await query.executeTakeFirstOrThrow()).count)
}
