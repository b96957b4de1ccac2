import type { Selectable } from 'kysely'
import {
  changed,
  fromOptionalJson,
  fromOptionalText,
  fromText,
  present,
  toOptionalJson,
  toOptionalText,
  toText,
} from '../codec.ts'
import type { Scope } from '../engine.ts'
import type { Tables } from '../schema.ts'
import type { CallRow } from '../store.ts'

const toCall = (row: Selectable<Tables['calls']>): CallRow => ({
  ...present({ decision: fromOptionalJson<object>(row.decision_json), actor: fromOptionalText(row.actor) }),
  runId: row.run_id,
  callId: fromText(row.call_id),
  tool: fromText(row.tool),
  state: row.state,
  openedAt: row.opened_at,
})

export async function insertCall({ db }: Scope, call: CallRow): Promise<void> {
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
    })
    .execute()
}

export async function changeCall(
  { db }: Scope,
  call: Pick<CallRow, 'runId' | 'callId'>,
  change: Partial<Pick<CallRow, 'state' | 'decision'>>,
): Promise<void> {
  const columns = changed({
    state: change.state,
    decision_json: toOptionalJson(change.decision) ?? undefined,
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
  states: readonly CallRow['state'][],
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
