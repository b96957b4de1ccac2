import { sql } from 'kysely'
import { ApprovalKinds, RunStates, Waiting } from '../columns.ts'
import type { Scope } from '../engine.ts'
import type {
  FigureReads,
  FiguresQuery,
  OpenGates,
  QueuedRuns,
  ReplicaStore,
  StoreFigures,
  WaitingForPerson,
} from '../figures.ts'
import { RowReader } from '../row-reader.ts'
import { WAITS } from './queue.ts'

/** Reads outside transactions. */
export const figureReads = (reading: Scope): Omit<FigureReads, keyof ReplicaStore> => ({
  readFigures: (query) => readFigures(reading, query),
  listWaitingForPerson: (limit) => listWaitingForPerson(reading, limit),
})

async function readFigures(scope: Scope, query: FiguresQuery): Promise<StoreFigures> {
  const [runs, queue, gates, unreleased] = await Promise.all([
    countByState(scope),
    countQueue(scope),
    countGates(scope, query.expiredBefore),
    countUnreleased(scope, query.endedBefore),
  ])
  return { runs, queue, gates, unreleased }
}

async function countByState({ db }: Scope): Promise<StoreFigures['runs']> {
  const rows = await db
    .selectFrom('runs')
    .select(['state', ({ fn }) => fn.countAll().as('count')])
    .groupBy('state')
    .execute()
  return new Map(rows.map((row) => [new RowReader('runs', row).oneOf('state', RunStates), Number(row.count)]))
}

async function countQueue({ db, engine }: Scope): Promise<QueuedRuns[]> {
  const rows = await db
    .selectFrom('queue')
    .select([
      'lane',
      ({ fn }) => fn.countAll().as('count'),
      ({ fn }) => fn.min('entered_ms').as('oldest'),
      engine.nowMs.as('now'),
    ])
    .where(WAITS)
    .groupBy('lane')
    .execute()
  return rows.map(({ lane, count, oldest, now }) => ({
    lane,
    count: Number(count),
    oldestMs: Math.max(0, Number(now) - Number(oldest ?? now)),
  }))
}

async function countGates({ db }: Scope, expiredBefore: string): Promise<OpenGates[]> {
  const rows = await db
    .selectFrom('approvals')
    .select([
      'kind',
      ({ fn }) => fn.countAll().as('count'),
      ({ fn }) => fn.min('created_at').as('oldest'),
      sql<number>`sum(case when expires_at < ${expiredBefore} then 1 else 0 end)`.as('overdue'),
    ])
    .where('state', '=', 'pending')
    .groupBy('kind')
    .execute()
  return rows.map((row) => ({
    kind: new RowReader('approvals', row).oneOf('kind', ApprovalKinds),
    count: Number(row.count),
    oldestAt: row.oldest,
    overdue: Number(row.overdue),
  }))
}

async function countUnreleased({ db }: Scope, endedBefore: string): Promise<number> {
  const { count } = await db
    .selectFrom('claims')
    .innerJoin('runs', 'runs.id', 'claims.run_id')
    .select(({ fn }) => fn.countAll().as('count'))
    .where('claims.state', 'in', ['requested', 'bound'])
    .where('runs.ended_at', '<', endedBefore)
    .executeTakeFirstOrThrow()
  return Number(count)
}

async function listWaitingForPerson(scope: Scope, limit: number): Promise<WaitingForPerson[]> {
  const found = await Promise.all([listGates(scope, limit), listForResume(scope, limit)])
  return found
    .flat()
    .toSorted((a, b) => a.since.localeCompare(b.since) || a.runId.localeCompare(b.runId))
    .slice(0, limit)
}

async function listGates({ db }: Scope, limit: number): Promise<WaitingForPerson[]> {
  const rows = await db
    .selectFrom('approvals')
    .innerJoin('runs', 'runs.id', 'approvals.run_id')
    .select(['runs.id', 'runs.owner', 'approvals.kind', 'approvals.created_at'])
    .where('approvals.state', '=', 'pending')
    .orderBy('approvals.created_at')
    .limit(limit)
    .execute()
  return rows.map((row) => ({
    runId: row.id,
    owner: new RowReader('runs', row).text('owner'),
    for: new RowReader('approvals', row).oneOf('kind', ApprovalKinds),
    since: row.created_at,
  }))
}

/** Most suspended runs wait for a decision or for their next turn. Only these wait for `POST /resume`. */
const FOR_RESUME = '%"for":"resume"%'

async function listForResume({ db }: Scope, limit: number): Promise<WaitingForPerson[]> {
  const rows = await db
    .selectFrom('runs')
    .select(['id', 'owner', 'waiting_json', 'created_at'])
    .where('state', '=', 'suspended')
    .where('waiting_json', 'like', FOR_RESUME)
    .orderBy('created_at')
    .limit(limit)
    .execute()
  return rows.map((row) => {
    const at = new RowReader('runs', row)
    const since = at.optionalJson('waiting_json', Waiting)?.since ?? row.created_at
    return { runId: row.id, owner: at.text('owner'), for: 'resume', since }
  })
}
