import type { Selectable } from 'kysely'
import { fromOptionalJson, fromText, present, toJson, toText } from '../codec.ts'
import type { Scope } from '../engine.ts'
import type { Tables } from '../schema.ts'
import type { TurnEnd, TurnOutcome, TurnRow } from '../store.ts'
import { lockRun } from './runs.ts'

const toTurn = (row: Selectable<Tables['turns']>): TurnRow => ({
  id: row.id,
  runId: row.run_id,
  ordinal: row.ordinal,
  state: row.state,
  prompt: fromText(row.prompt),
  final: row.final === 1,
  ...present({
    end: fromOptionalJson<TurnEnd>(row.end_json),
    outcome: fromOptionalJson<TurnOutcome>(row.outcome_json),
  }),
})

/** Turns of a run are numbered from 1 in the order in which they were taken. */
export async function insertTurn(scope: Scope, turn: Omit<TurnRow, 'ordinal'>): Promise<TurnRow> {
  const run = await lockRun(scope, turn.runId)
  const last = await scope.db
    .selectFrom('turns')
    .select('ordinal')
    .where('run_id', '=', run.id)
    .orderBy('ordinal', 'desc')
    .limit(1)
    .executeTakeFirst()
  const row = {
    id: turn.id,
    run_id: turn.runId,
    ordinal: (last?.ordinal ?? 0) + 1,
    state: turn.state,
    prompt: toText(turn.prompt),
    final: turn.final ? 1 : 0,
    end_json: null,
    outcome_json: null,
  }
  await scope.db.insertInto('turns').values(row).execute()
  return toTurn(row)
}

export async function changeTurn({ db }: Scope, id: string, state: TurnRow['state']): Promise<void> {
  await db.updateTable('turns').set({ state }).where('id', '=', id).execute()
}

export async function endTurn({ db }: Scope, id: string, end: TurnEnd): Promise<void> {
  const columns = { state: 'ended', end_json: toJson(end) } as const
  await db.updateTable('turns').set(columns).where('id', '=', id).execute()
}

export async function reportOutcome({ db }: Scope, turnId: string, outcome: TurnOutcome): Promise<void> {
  await db
    .updateTable('turns')
    .set({ outcome_json: toJson(outcome) })
    .where('id', '=', turnId)
    .execute()
}

export async function listTurns(
  { db }: Scope,
  runId: string,
  states?: readonly TurnRow['state'][],
): Promise<TurnRow[]> {
  let query = db.selectFrom('turns').selectAll().where('run_id', '=', runId).orderBy('ordinal')
  if (states) query = query.where('state', 'in', states)
  return (await query.execute()).map(toTurn)
}
