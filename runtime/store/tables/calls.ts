import type { CallChange, CallRow, NewCall, ReleasedCalls } from '../call-row.ts'
import { changed, present, toOptionalJson, toOptionalText, toText } from '../codec.ts'
import { CallStates, StoredDecision, Summary } from '../columns.ts'
import type { Scope } from '../engine.ts'
import { RowReader } from '../row-reader.ts'

function toCall(row: object): CallRow {
  const at = new RowReader('calls', row)
  return {
    ...present({
      decision: at.optionalJson('decision_json', StoredDecision),
      actor: at.optionalText('actor'),
      request: at.optionalAnyJson('request_json'),
      summary: at.optionalJson('summary_json', Summary),
    }),
    sequence: at.integer('sequence'),
    runId: at.plain('run_id'),
    callId: at.text('call_id'),
    tool: at.text('tool'),
    state: at.oneOf('state', CallStates),
    openedAt: at.plain('opened_at'),
  }
}

export async function insertCall({ db }: Scope, call: NewCall): Promise<void> {
  await db
    .insertInto('calls')
    .values({
      run_id: call.runId,
      call_id: toText(call.callId),
      tool: toText(call.tool),
      state: call.state,
      decision_json: toOptionalJson(call.decision),
      opened_at: call.openedAt,
      actor: toOptionalText(call.actor),
      request_json: toOptionalJson(call.request),
      summary_json: null,
      was_released: call.state === 'released' ? 1 : 0,
      sequence: call.sequence ?? 0,
    })
    .execute()
}

export async function changeCall(
  { db }: Scope,
  call: Pick<CallRow, 'runId' | 'callId'>,
  change: CallChange,
): Promise<void> {
  const columns = changed({
    state: change.state,
    decision_json: toOptionalJson(change.decision) ?? undefined,
    was_released: change.state === 'released' ? 1 : undefined,
    request_json: change.state === 'ended' ? null : undefined,
    summary_json: toOptionalJson(change.summary) ?? undefined,
    sequence: change.sequence,
  })
  if (Object.keys(columns).length === 0) return
  await db
    .updateTable('calls')
    .set(columns)
    .where('run_id', '=', call.runId)
    .where('call_id', '=', toText(call.callId))
    .execute()
}

export async function readCall({ db }: Scope, runId: string, callId: string): Promise<CallRow | undefined> {
  const row = await db
    .selectFrom('calls')
    .selectAll()
    .where('run_id', '=', runId)
    .where('call_id', '=', toText(callId))
    .executeTakeFirst()
  return row && toCall(row)
}

export async function listCalls(
  { db }: Scope,
  runId: string,
  states: readonly Exclude<CallRow['state'], 'ended'>[],
): Promise<CallRow[]> {
  const rows = await db
    .selectFrom('calls')
    .selectAll()
    .where('run_id', '=', runId)
    .where('state', 'in', states)
    .orderBy('opened_at')
    .orderBy('call_id')
    .execute()
  return rows.map(toCall)
}

/** The last ones first. A person's file write has no event. */
export async function listReleasedCalls(
  { db }: Scope,
  runId: string,
  { after, limit }: ReleasedCalls,
): Promise<CallRow[]> {
  const rows = await db
    .selectFrom('calls')
    .selectAll()
    .where('run_id', '=', toText(runId))
    .where('was_released', '=', 1)
    .where('sequence', '>', after)
    .orderBy('sequence', 'desc')
    .limit(limit)
    .execute()
  return rows.map(toCall)
}
