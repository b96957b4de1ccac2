import { sql } from 'kysely'
import { SandboxError } from '../../kit/errors.ts'
import type { AuditHead } from '../audit-rows.ts'
import { changed, present, toJson, toOptionalJson, toText } from '../codec.ts'
import {
  AllowedHosts,
  CarriedCalls,
  Origin,
  Outcome,
  PushGrant,
  RunAgent,
  RunEnding,
  RunFailure,
  RunKinds,
  RunLabels,
  RunSandbox,
  RunSettings,
  RunSetup,
  RunStates,
  SavedCheckpoint,
  Usage,
  Waiting,
  Workspaces,
} from '../columns.ts'
import type { Scope } from '../engine.ts'
import { HOLDER_LEASE } from '../holder-lease.ts'
import { RowReader } from '../row-reader.ts'
import type { Held, NewRun, RunChange, RunCount, RunFilter, RunRow, RunState } from '../store.ts'
import { followState, insertQueueRow } from './queue.ts'

const NO_USAGE = Usage.parse({})

function toRun(row: object): RunRow {
  const at = new RowReader('runs', row)
  return {
    ...present({
      sandbox: at.optionalJson('sandbox_json', RunSandbox),
      failure: at.optionalJson('failure_json', RunFailure),
      outcome: at.optionalJson('outcome_json', Outcome),
      startedAt: at.optionalPlain('started_at'),
      firstEventAt: at.optionalPlain('first_event_at'),
      endedAt: at.optionalPlain('ended_at'),
      checkpointAt: at.optionalPlain('checkpoint_at'),
      holder: at.optionalPlain('holder'),
      traceparent: at.optionalPlain('traceparent'),
      ending: at.optionalJson('ending_json', RunEnding),
      usedAt: at.optionalPlain('used_at'),
      suspendAskedAt: at.optionalPlain('suspend_asked_at'),
      waiting: at.optionalJson('waiting_json', Waiting),
      checkpoint: at.optionalJson('checkpoint_json', SavedCheckpoint),
      source: at.optionalJson('source_json', Origin),
      setup: at.optionalJson('setup_json', RunSetup),
      push: at.optionalJson('push_json', PushGrant),
    }),
    carriedCalls: at.optionalJson('carried_calls_json', CarriedCalls) ?? [],
    losses: at.integer('losses'),
    endsWithService: at.flag('ends_with_service'),
    id: at.plain('id'),
    kind: at.oneOf('kind', RunKinds),
    owner: at.text('owner'),
    state: at.oneOf('state', RunStates),
    task: at.text('task'),
    workspace: at.json('workspace_json', Workspaces),
    agent: at.json('agent_json', RunAgent),
    agentSpec: at.anyJson('agent_spec_json'),
    labels: at.json('labels_json', RunLabels),
    settings: at.json('settings_json', RunSettings),
    allowedHosts: at.optionalJson('allowed_hosts_json', AllowedHosts) ?? [],
    interactive: at.flag('interactive'),
    generation: at.integer('generation'),
    policyVersion: at.plain('policy_version'),
    keyId: at.plain('key_id'),
    lastSequence: at.integer('last_sequence'),
    hostSequence: at.integer('host_sequence'),
    hostReread: at.integer('host_reread'),
    activeMs: at.integer('active_ms'),
    usage: at.optionalJson('usage_json', Usage) ?? NO_USAGE,
    touched: { secret: at.flag('touched_secret') },
    createdAt: at.plain('created_at'),
  }
}

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
    traceparent: run.traceparent ?? null,
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
    allowed_hosts_json: null,
    setup_json: null,
    push_json: toOptionalJson(run.push),
  }
  await scope.db.insertInto('runs').values(row).execute()
  await insertQueueRow(scope, run)
  return toRun(row)
}

export async function readRun({ db }: Scope, id: string): Promise<RunRow | undefined> {
  const row = await db.selectFrom('runs').selectAll().where('id', '=', toText(id)).executeTakeFirst()
  return row && toRun(row)
}

export async function readAndLockRun(scope: Scope, id: string): Promise<RunRow | undefined> {
  const query = scope.db.selectFrom('runs').selectAll().where('id', '=', toText(id))
  const row = await scope.engine.lockRows(query).executeTakeFirst()
  return row && toRun(row)
}

/** Where the events and the audit of a run are. */
export interface RunPosition {
  readonly generation: number
  readonly lastSequence: number
  readonly hostSequence: number
  readonly audit: AuditHead
}

/** The run, held against other writers until the transaction ends: the order of events and of the audit. */
export async function lockRun({ db, engine }: Scope, id: string): Promise<RunPosition> {
  const query = db
    .selectFrom('runs')
    .select(['generation', 'last_sequence', 'host_sequence', 'audit_count', 'audit_mac'])
    .where('id', '=', toText(id))
  const row = await engine.lockRows(query).executeTakeFirst()
  if (!row) throw new SandboxError('not_found', `There is no run ${id}.`)
  const at = new RowReader('runs', row)
  return {
    generation: at.integer('generation'),
    lastSequence: at.integer('last_sequence'),
    hostSequence: at.integer('host_sequence'),
    audit: auditHeadOf(row),
  }
}

export function auditHeadOf(row: object): AuditHead {
  const at = new RowReader('runs', row)
  return { count: at.integer('audit_count'), mac: at.plain('audit_mac') }
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

const workspaceColumn = (workspace: RunChange['workspace']) => toOptionalJson(workspace) ?? undefined

/** The flag is never cleared. */
const secretColumn = (touched: RunChange['touched']) => (touched?.secret ? 1 : undefined)

const allowedHostsColumn = (hosts: RunChange['allowedHosts']) => toOptionalJson(hosts) ?? undefined

const setupColumn = (setup: RunChange['setup']) => toOptionalJson(setup) ?? undefined

const columnsOf = (change: RunChange) =>
  changed({
    generation: change.generation,
    workspace_json: workspaceColumn(change.workspace),
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
    allowed_hosts_json: allowedHostsColumn(change.allowedHosts),
    setup_json: setupColumn(change.setup),
  })

/** Separates the rows that can be read from damaged ones. */
function toPage(rows: readonly { readonly id: string }[]): RunsPage {
  const items: RunRow[] = []
  const damaged: RunsPage['damaged'][number][] = []
  for (const row of rows) {
    try {
      items.push(toRun(row))
    } catch (error) {
      damaged.push({ id: row.id, error })
    }
  }
  return { items, damaged }
}

/** One page of runs, newest first. `damaged`: why rows of the page could not be read. */
export interface RunsPage {
  readonly items: RunRow[]
  readonly damaged: readonly { readonly id: string; readonly error: unknown }[]
  readonly next?: string
}

export async function listRuns(scope: Scope, filter: RunFilter): Promise<RunsPage> {
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
  const page = toPage(rows.slice(0, filter.limit))
  const last = rows[filter.limit - 1]
  return rows.length > filter.limit && last ? { ...page, next: last.id } : page
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
): Promise<Held[]> {
  const rows = await db
    .selectFrom('runs')
    .select(['runs.id', 'runs.holder'])
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
  return rows.map((row) => {
    const at = new RowReader('runs', row)
    return { id: at.plain('id'), ...present({ holder: at.optionalPlain('holder') }) }
  })
}

export async function countRuns({ db }: Scope, filter: RunCount): Promise<number> {
  let query = db
    .selectFrom('runs')
    .select(({ fn }) => fn.countAll().as('count'))
    .where('state', 'in', filter.states)
  if (filter.owner !== undefined) query = query.where('owner', '=', toText(filter.owner))
  return Number((await query.executeTakeFirstOrThrow()).count)
}
