import { SandboxError } from '../../kit/errors.ts'
import type { AuditHead, AuditQuery, AuditRow } from '../audit-rows.ts'
import { toText } from '../codec.ts'
import type { Scope } from '../engine.ts'
import { RowReader } from '../row-reader.ts'
import type { Store } from '../store.ts'
import { auditHeadOf, lockRun } from './runs.ts'

/** The deployment's chain, which belongs to no run. */
const DEPLOYMENT = ''
const ROWS_PER_INSERT = 1_000

/** A run's head is in its row, so that one lock orders its events and its audit. */
export async function lockAuditHead(scope: Scope, runId: string): Promise<AuditHead> {
  if (runId !== DEPLOYMENT) {
    const run = await lockRun(scope, runId)
    return run.audit
  }
  await scope.db
    .insertInto('audit_heads')
    .values({ chain: DEPLOYMENT, count: 0, mac: '' })
    .onConflict((conflict) => conflict.doNothing())
    .execute()
  const query = scope.db.selectFrom('audit_heads').select(['count', 'mac']).where('chain', '=', DEPLOYMENT)
  return toHead(await scope.engine.lockRows(query).executeTakeFirstOrThrow())
}

/** Appends the rows of one chain and moves its head; refuses rows that do not continue the chain. */
export async function appendAudit({ db }: Scope, rows: readonly AuditRow[], head: AuditHead): Promise<void> {
  const [first] = rows
  if (!first) return
  if (
    rows.some(({ runId, sequence }, index) => runId !== first.runId || sequence !== first.sequence + index)
  ) {
    throw new Error('audit rows must be of one chain and in order')
  }
  const moved = await moveHead(db, first, head)
  if (!moved)
    throw new SandboxError('conflict', 'The audit chain has moved on: read its head in this transaction.')
  const values = rows.map((row) => ({
    run_id: row.runId,
    sequence: row.sequence,
    at: row.at,
    tool: toText(row.tool),
    decision: toText(row.decision),
    record: row.record,
    mac: row.mac,
  }))
  for (let start = 0; start < values.length; start += ROWS_PER_INSERT) {
    await db
      .insertInto('audit')
      .values(values.slice(start, start + ROWS_PER_INSERT))
      .execute()
  }
}

async function moveHead(db: Scope['db'], first: AuditRow, head: AuditHead): Promise<boolean> {
  const { numUpdatedRows } =
    first.runId === DEPLOYMENT
      ? await db
          .updateTable('audit_heads')
          .set({ count: head.count, mac: head.mac })
          .where('chain', '=', DEPLOYMENT)
          .where('count', '=', first.sequence - 1)
          .executeTakeFirstOrThrow()
      : await db
          .updateTable('runs')
          .set({ audit_count: head.count, audit_mac: head.mac })
          .where('id', '=', first.runId)
          .where('audit_count', '=', first.sequence - 1)
          .executeTakeFirstOrThrow()
  return numUpdatedRows > 0n
}

function toHead(row: object): AuditHead {
  const at = new RowReader('audit_heads', row)
  return { count: at.integer('count'), mac: at.plain('mac') }
}

function toAudit(row: object): AuditRow {
  const at = new RowReader('audit', row)
  return {
    runId: at.plain('run_id'),
    sequence: at.integer('sequence'),
    at: at.plain('at'),
    tool: at.text('tool'),
    decision: at.text('decision'),
    record: at.plain('record'),
    mac: at.plain('mac'),
  }
}

/** Records in the order in which they were written; the cursor is the last one's place in it. */
async function readAudit({ db }: Scope, query: AuditQuery): Promise<{ items: AuditRow[]; next?: string }> {
  let select = db
    .selectFrom('audit')
    .selectAll()
    .orderBy('position')
    .limit(query.limit + 1)
  if (query.after !== undefined) select = select.where('position', '>', positionOf(query.after))
  if (query.runId !== undefined) select = select.where('run_id', '=', toText(query.runId))
  if (query.tool !== undefined) select = select.where('tool', '=', toText(query.tool))
  if (query.decision !== undefined) select = select.where('decision', '=', toText(query.decision))
  if (query.since !== undefined) select = select.where('at', '>=', new Date(query.since).toISOString())
  if (query.until !== undefined) select = select.where('at', '<', new Date(query.until).toISOString())
  const rows = await select.execute()
  const kept = rows.slice(0, query.limit)
  const last = kept.at(-1)
  const items = kept.map(toAudit)
  return rows.length > query.limit && last ? { items, next: String(last.position) } : { items }
}

function positionOf(cursor: string): number {
  if (/^\d{1,15}$/.test(cursor)) return Number(cursor)
  throw new SandboxError(
    'invalid_request',
    'The cursor `after` does not belong to this list: start from the first page.',
  )
}

async function readAuditHead(
  { db }: Scope,
  runId: string,
): Promise<(AuditHead & { readonly isEnded: boolean }) | undefined> {
  if (runId === DEPLOYMENT) {
    const query = db.selectFrom('audit_heads').select(['count', 'mac']).where('chain', '=', DEPLOYMENT)
    const row = await query.executeTakeFirst()
    return { ...(row ? toHead(row) : { count: 0, mac: '' }), isEnded: false }
  }
  const run = await db
    .selectFrom('runs')
    .select(['audit_count', 'audit_mac', 'ended_at'])
    .where('id', '=', toText(runId))
    .executeTakeFirst()
  return run && { ...auditHeadOf(run), isEnded: run.ended_at !== null }
}

/** One index look-up per id: `select distinct` would read every record. */
async function nextAuditChain(
  { db }: Scope,
  among: 'runs' | 'records',
  after: string,
): Promise<string | undefined> {
  if (among === 'runs') {
    const run = db.selectFrom('runs').select('id').where('id', '>', after).orderBy('id').limit(1)
    return (await run.executeTakeFirst())?.id
  }
  const record = db
    .selectFrom('audit')
    .select('run_id')
    .where('run_id', '>', after)
    .orderBy('run_id')
    .limit(1)
  return (await record.executeTakeFirst())?.run_id
}

/** What reads the audit; a copy of a store has these alone. */
export const auditReads = (
  reading: Scope,
): Pick<Store, 'readAudit' | 'readAuditHead' | 'nextAuditChain'> => ({
  readAudit: (query) => readAudit(reading, query),
  readAuditHead: (runId) => readAuditHead(reading, runId),
  nextAuditChain: (among, after) => nextAuditChain(reading, among, after),
})
