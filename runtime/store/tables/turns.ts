import { present, toJson, toText } from '../codec.ts'
import { Outcome, TurnEnds, TurnStates } from '../columns.ts'
import type { Scope } from '../engine.ts'
import { RowReader } from '../row-reader.ts'
import type { TurnEnd, TurnOutcome, TurnRow } from '../store.ts'
import { lockRun } from './runs.ts'

function toTurn(row: object): TurnRow {
  const at = new RowReader('turns', row)
  return {
    id: at.plain('id'),
    runId: at.plain('run_id'),
    ordinal: at.integer('ordinal'),
    state: at.oneOf('state', TurnStates),
    prompt: at.text('prompt'),
    final: at.flag('final'),
    ...present({
      end: at.optionalJson('end_json', TurnEnds),
      outcome: at.optionalJson('outcome_json', Outcome),
      sentPrompt: at.optionalText('sent_prompt'),
    }),
  }
}

/** Turns of a run are numbered from 1 in the order in which they were taken. */
export async function insertTurn(scope: Scope, turn: Omit<TurnRow, 'ordinal'>): Promise<TurnRow> {
  await lockRun(scope, turn.runId)
  const last = await scope.db
    .selectFrom('turns')
    .select('ordinal')
    .where('run_id', '=', turn.runId)
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
    sent_prompt: null,
  }
  await scope.db.insertInto('turns').values(row).execute()
  return toTurn(row)
}

export async function changeTurn(
  { db }: Scope,
  id: string,
  { state, sentPrompt }: Pick<TurnRow, 'state' | 'sentPrompt'>,
): Promise<void> {
  const columns = { state, ...(sentPrompt !== undefined && { sent_prompt: toText(sentPrompt) }) }
  await db.updateTable('turns').set(columns).where('id', '=', id).execute()
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

export async function readTurn({ db }: Scope, id: string): Promise<TurnRow | undefined> {
  const row = await db.selectFrom('turns').selectAll().where('id', '=', toText(id)).executeTakeFirst()
  return row && toTurn(row)
}

export async function lastEndedTurn({ db }: Scope, runId: string): Promise<TurnRow | undefined> {
  const row = await db
    .selectFrom('turns')
    .selectAll()
    .where('run_id', '=', runId)
    .where('state', '=', 'ended')
    .orderBy('ordinal', 'desc')
    .limit(1)
    .executeTakeFirst()
  return row && toTurn(row)
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
