import { sql } from 'kysely'
import type { RunState } from '../../../contracts/api.ts'
import { SandboxError } from '../../kit/errors.ts'
import { toText } from '../codec.ts'
import type { Scope } from '../engine.ts'
import { HOLDER_LEASE } from '../holder-lease.ts'
import {
  type HeadQuery,
  type Lane,
  laneOf,
  type OpenLane,
  QUEUED_STATES,
  type QueueHead,
  type QueueView,
  type RunsByOwner,
  type UnderWayQuery,
} from '../queue.ts'
import { RowReader } from '../row-reader.ts'
import type { NewRun } from '../store.ts'
import { lockIfFree } from './run-lock.ts'

/** Starts that an estimate is based on: this many, and none that is older. */
const KEPT_STARTS = 20
const STARTS_MAX_AGE_MS = 900_000
/** A run that was picked sooner did not wait for a place, so its start does not show the pace of the queue. */
const WAITED_MS = 1_000

/** Literals instead of parameters, so that the databases can use the partial indexes. */
export const WAITS = sql<boolean>`place is not null`
const IS_HEAD = sql<boolean>`place = 1`

const QUEUED: ReadonlySet<RunState> = new Set(QUEUED_STATES)
const FINAL: ReadonlySet<RunState> = new Set(['succeeded', 'failed', 'cancelled'])

/** Every run that has not ended has a row here, because a run that is queued again keeps its first time. */
export async function insertQueueRow(scope: Scope, run: NewRun): Promise<void> {
  if (FINAL.has(run.state)) return
  await scope.db
    .insertInto('queue')
    .values({ run_id: run.id, lane: laneOf(run), owner: toText(run.owner), not_before_ms: 0, attempts: 0 })
    .execute()
  await followState(scope, run.id, { to: run.state })
}

type Move = { readonly from?: RunState; readonly to: RunState }

/** Keeps the queue in step with the state of a run. Called in the transaction that writes the state. */
export async function followState(scope: Scope, runId: string, { from, to }: Move): Promise<void> {
  const [was, is] = [from !== undefined && QUEUED.has(from), QUEUED.has(to)]
  if (!was && is) await enter(scope, runId, { from, to })
  if (was && !is) await leave(scope, runId, to)
  if (FINAL.has(to)) await scope.db.deleteFrom('queue').where('run_id', '=', runId).execute()
}

/** A run that waits for the first time has a deadline. A run that has begun waits until there is a place. */
const DEADLINE_FROM: { readonly [Reason in 'first' | 'again' | 'no room']: (now: unknown) => unknown } = {
  first: (now) => now,
  again: () => null,
  'no room': () => sql`deadline_from_ms`,
}

async function enter(
  scope: Scope,
  runId: string,
  { from, to }: { readonly from: RunState | undefined; readonly to: RunState },
): Promise<void> {
  const { db, engine } = scope
  await engine.lockAdmission(db)
  await requireRow(scope, runId)
  const isRetry = to === 'pending_capacity'
  const isFirst = from === undefined || from === 'waiting_upload'
  const reason = isRetry ? 'no room' : isFirst ? 'first' : 'again'
  const row = await db
    .updateTable('queue')
    .set({
      queued_ms: sql<number>`coalesce(queued_ms, ${engine.nowMs})`,
      entered_ms: engine.nowMs,
      deadline_from_ms: DEADLINE_FROM[reason](engine.nowMs) as number | null,
      not_before_ms: 0,
      due_ms: null,
      place: 0,
      ...(!isRetry && { attempts: 0 }),
    })
    .where('run_id', '=', runId)
    .returning(['lane', 'owner'])
    .executeTakeFirst()
  if (!row) throw new SandboxError('not_found', `There is no run ${runId}.`)
  await elect(scope, row, isRetry ? 'kept' : 'inherited')
}

/** During an upgrade, a replica of an earlier release writes runs without a row here. */
async function requireRow({ db }: Scope, runId: string): Promise<void> {
  const known = await db.selectFrom('queue').select('run_id').where('run_id', '=', runId).executeTakeFirst()
  if (known) return
  const run = await db
    .selectFrom('runs')
    .select(['kind', 'owner', 'ends_with_service', 'created_at'])
    .where('id', '=', runId)
    .executeTakeFirst()
  if (!run) return
  const { kind, owner, created_at } = run
  const lane = laneOf({ kind, endsWithService: run.ends_with_service === 1 })
  const queued_ms = Date.parse(created_at)
  await db
    .insertInto('queue')
    .values({ run_id: runId, lane, owner, queued_ms, not_before_ms: 0, attempts: 0 })
    .execute()
}

/**
 * Queues runs that a replica of an earlier release left behind: by their state they wait in the queue, but they have no place in
 * it, and no process holds them. Returns their ids.
 */
export async function queueLeftBehind(scope: Scope, limit: number): Promise<string[]> {
  const { db, engine } = scope
  const left = db
    .selectFrom('runs')
    .leftJoin('queue', 'queue.run_id', 'runs.id')
    .leftJoin('leases', (join) =>
      join
        .on('leases.name', '=', sql<string>`${sql.lit(HOLDER_LEASE)} || ${sql.ref('runs.holder')}`)
        .on('leases.expires_ms', '>', engine.nowMs),
    )
    .select(['runs.id', 'runs.state', 'runs.started_at'])
    .where('runs.state', 'in', QUEUED_STATES)
    .where('queue.place', 'is', null)
    .where('leases.name', 'is', null)
  const queued: string[] = []
  for (const { id } of await left.orderBy('runs.id').limit(limit).execute()) {
    if (!(await lockIfFree(scope, id))) continue
    // Another replica may have queued it in the meantime.
    const run = await left.where('runs.id', '=', id).executeTakeFirst()
    const to = QUEUED_STATES.find((state) => state === run?.state)
    if (!run || !to) continue
    await enter(scope, id, { from: run.started_at === null ? undefined : 'suspended', to })
    await db.updateTable('runs').set({ holder: null }).where('id', '=', id).execute()
    queued.push(id)
  }
  return queued
}

async function leave(scope: Scope, runId: string, to: RunState): Promise<void> {
  const { db, engine } = scope
  await engine.lockAdmission(db)
  const row = await db
    .updateTable('queue')
    .set({ place: null, due_ms: null })
    .where('run_id', '=', runId)
    .returning(['lane', 'owner', 'turn_ms', 'entered_ms', engine.nowMs.as('now')])
    .executeTakeFirst()
  if (!row) return
  // An owner whose run starts moves behind the owners that wait. A run that ends gives its turn to the next one.
  await elect(scope, row, to === 'starting' ? row.now : (row.turn_ms ?? row.now))
  if (to === 'starting' && row.now - (row.entered_ms ?? row.now) >= WAITED_MS)
    await noteStart(scope, row.lane)
}

type Line = { readonly lane: Lane; readonly owner: string }

/**
 * The turn of a run that becomes the first of its owner: a time; `inherited` from the run before which it is placed, or from
 * its first time in the queue; or `kept` from its last wait, because it got no sandbox.
 */
type Turn = number | 'inherited' | 'kept'

/** Marks the oldest waiting run of an owner. Only marked runs compete for a place, so a long line costs no more. */
async function elect({ db }: Scope, { lane, owner }: Line, turn: Turn): Promise<void> {
  const oldest = await db
    .selectFrom('queue')
    .select(['run_id', 'place', 'queued_ms', 'turn_ms'])
    .where('lane', '=', lane)
    .where('owner', '=', owner)
    .where(WAITS)
    .orderBy('queued_ms')
    .orderBy('run_id')
    .limit(1)
    .executeTakeFirst()
  if (!oldest || oldest.place === 1) return
  const displaced = await db
    .updateTable('queue')
    .set({ place: 0 })
    .where('lane', '=', lane)
    .where('owner', '=', owner)
    .where(IS_HEAD)
    .returning('turn_ms')
    .executeTakeFirst()
  const inherited = displaced?.turn_ms ?? oldest.queued_ms
  const kept = oldest.turn_ms ?? inherited
  const turn_ms = typeof turn === 'number' ? turn : turn === 'kept' ? kept : inherited
  await db.updateTable('queue').set({ place: 1, turn_ms }).where('run_id', '=', oldest.run_id).execute()
}

async function noteStart({ db, engine }: Scope, lane: Lane): Promise<void> {
  await db.insertInto('queue_starts').values({ lane, at_ms: engine.nowMs }).execute()
  const last = await db
    .selectFrom('queue_starts')
    .select('at_ms')
    .where('lane', '=', lane)
    .orderBy('at_ms', 'desc')
    .offset(KEPT_STARTS)
    .limit(1)
    .executeTakeFirst()
  if (last)
    await db.deleteFrom('queue_starts').where('lane', '=', lane).where('at_ms', '<=', last.at_ms).execute()
}

/** One statement for all lanes, because each round trip to a database costs more than the search in its indexes. */
export async function listQueueHeads(
  { db, engine }: Scope,
  { lanes, limit, without }: HeadQuery,
): Promise<QueueHead[]> {
  const owners = (without?.owners ?? []).map(toText)
  const runIds = without?.runIds ?? []
  const headsOf = ({ lane, hasRoom }: OpenLane) => {
    const isFull = db
      .selectFrom('queue')
      .select('run_id')
      .where('lane', '=', lane)
      .where(WAITS)
      .where('due_ms', '>', engine.nowMs)
    let heads = db
      .selectFrom('queue')
      .select(['run_id', 'lane', 'owner', 'turn_ms'])
      .where('lane', '=', lane)
      .where(IS_HEAD)
      .where('not_before_ms', '<=', engine.nowMs)
      .orderBy('turn_ms')
      .orderBy('run_id')
      .limit(limit)
    if (owners.length > 0) heads = heads.where('owner', 'not in', owners)
    if (runIds.length > 0) heads = heads.where('run_id', 'not in', runIds)
    if (!hasRoom)
      heads = heads.where(({ or, eb, not, exists }) =>
        or([eb('due_ms', '<=', engine.nowMs), not(exists(isFull))]),
      )
    return db.selectFrom(heads.as('heads')).selectAll()
  }
  const [first, ...others] = lanes.map(headsOf)
  if (!first) return []
  const rows = await others.reduce((all, one) => all.unionAll(one), first).execute()
  const next = runIds.length === 0 ? [] : await behind({ db, engine }, lanes, { owners, runIds })
  return [...rows, ...next].map((row) => ({
    runId: row.run_id,
    lane: row.lane,
    owner: new RowReader('queue', row).text('owner'),
    turnMs: row.turn_ms ?? 0,
  }))
}

/** The runs behind heads that are left out: those must not keep the other runs of their owners from starting. */
async function behind(
  { db, engine }: Scope,
  lanes: readonly OpenLane[],
  { owners, runIds }: { readonly owners: readonly string[]; readonly runIds: readonly string[] },
) {
  let skipped = db
    .selectFrom('queue')
    .select(['lane', 'owner', 'turn_ms'])
    .where('run_id', 'in', runIds)
    .where(IS_HEAD)
    .where(
      'lane',
      'in',
      lanes.map(({ lane }) => lane),
    )
  if (owners.length > 0) skipped = skipped.where('owner', 'not in', owners)
  const found: { run_id: string; lane: Lane; owner: string; turn_ms: number | null }[] = []
  for (const { lane, owner, turn_ms } of await skipped.execute()) {
    const next = await db
      .selectFrom('queue')
      .select('run_id')
      .where('lane', '=', lane)
      .where('owner', '=', owner)
      .where(WAITS)
      .where('run_id', 'not in', runIds)
      .where('not_before_ms', '<=', engine.nowMs)
      .orderBy('queued_ms')
      .orderBy('run_id')
      .limit(1)
      .executeTakeFirst()
    if (next) found.push({ run_id: next.run_id, lane, owner, turn_ms })
  }
  return found
}

export async function countRunsUnderWay(
  { db }: Scope,
  { states, holder }: UnderWayQuery,
): Promise<RunsByOwner> {
  let query = db
    .selectFrom('runs')
    .select(['owner', ({ fn }) => fn.countAll().as('count')])
    .where('state', 'in', states)
    .groupBy('owner')
  if (holder !== undefined) query = query.where('holder', '=', holder)
  const rows = await query.execute()
  return new Map(rows.map((row) => [new RowReader('runs', row).text('owner'), Number(row.count)]))
}

/** A waiting run found no room. */
export async function waitForRoom(
  { db, engine }: Scope,
  runId: string,
  { pauseMs, retryMs }: { readonly pauseMs: number; readonly retryMs: number },
): Promise<void> {
  await db
    .updateTable('queue')
    .set({
      attempts: sql<number>`attempts + 1`,
      not_before_ms: sql<number>`${engine.nowMs} + ${sql.lit(Math.round(pauseMs))}`,
      due_ms: sql<number>`${engine.nowMs} + ${sql.lit(Math.round(retryMs))}`,
    })
    .where('run_id', '=', runId)
    .where(WAITS)
    .execute()
}

/** How often the run has found no room since it was queued. */
export async function readAttempts({ db }: Scope, runId: string): Promise<number> {
  const row = await db.selectFrom('queue').select('attempts').where('run_id', '=', runId).executeTakeFirst()
  return row?.attempts ?? 0
}

/**
 * Positions in the order in which the runs would start if no other run ended: the owner with the fewest runs first, then
 * the owner whose turn it is.
 */
export async function viewQueue(
  { db, engine }: Scope,
  { lane, underWay }: { readonly lane: Lane; readonly underWay: UnderWayQuery },
): Promise<QueueView> {
  let busy = db
    .selectFrom('runs')
    .select(['owner', ({ fn }) => fn.countAll<number>().as('count')])
    .where('state', 'in', underWay.states)
    .groupBy('owner')
  if (underWay.holder !== undefined) busy = busy.where('holder', '=', underWay.holder)
  const rounds = db
    .selectFrom('queue')
    .leftJoin(busy.as('busy'), 'busy.owner', 'queue.owner')
    .select([
      'queue.run_id',
      'queue.queued_ms',
      sql<number>`row_number() over (partition by queue.owner order by queue.queued_ms, queue.run_id)
        + coalesce(busy.count, 0)`.as('round'),
      sql<number>`first_value(queue.turn_ms) over (partition by queue.owner order by queue.queued_ms, queue.run_id)`.as(
        'turn',
      ),
    ])
    .where('queue.lane', '=', lane)
    .where(WAITS)
  const rows = await db
    .selectFrom(rounds.as('rounds'))
    .select([
      'run_id',
      sql<number>`row_number() over (order by round, turn, queued_ms, run_id)`.as('position'),
    ])
    .execute()
  const starts = await db
    .selectFrom('queue_starts')
    .select(({ fn }) => [
      fn.countAll<number>().as('count'),
      fn.min('at_ms').as('first'),
      engine.nowMs.as('now'),
    ])
    .where('lane', '=', lane)
    .where('at_ms', '>', sql<number>`${engine.nowMs} - ${sql.lit(STARTS_MAX_AGE_MS)}`)
    .executeTakeFirstOrThrow()
  return {
    positions: new Map(rows.map(({ run_id, position }) => [run_id, Number(position)])),
    starts: { count: Number(starts.count), firstMs: starts.first ?? starts.now },
    nowMs: starts.now,
  }
}
