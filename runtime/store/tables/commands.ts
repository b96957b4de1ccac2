import type { Selectable } from 'kysely'
import {
  fromJson,
  fromOptionalJson,
  fromOptionalText,
  present,
  toJson,
  toOptionalText,
  toText,
} from '../codec.ts'
import type { Scope } from '../engine.ts'
import type { Tables } from '../schema.ts'
import type { CommandRow } from '../store.ts'

export async function insertCommand({ db }: Scope, command: CommandRow): Promise<void> {
  await db
    .insertInto('commands')
    .values({
      id: command.id,
      run_id: command.runId,
      state: command.state,
      request_json: toJson(command.request),
      result_json: command.result === undefined ? null : toJson(command.result),
      actor: toOptionalText(command.actor),
    })
    .execute()
}

/** Ends a running command; the first result stands. */
export async function endCommand({ db }: Scope, id: string, result: unknown): Promise<void> {
  await db
    .updateTable('commands')
    .set({ state: 'ended', result_json: toJson(result) })
    .where('id', '=', id)
    .where('state', '=', 'running')
    .execute()
}

export async function readCommand({ db }: Scope, runId: string, id: string): Promise<CommandRow | undefined> {
  const row = await db
    .selectFrom('commands')
    .selectAll()
    .where('id', '=', toText(id))
    .where('run_id', '=', toText(runId))
    .executeTakeFirst()
  return row && toCommand(row)
}

export async function listRunningCommands({ db }: Scope, runId: string): Promise<CommandRow[]> {
  const rows = await db
    .selectFrom('commands')
    .selectAll()
    .where('run_id', '=', runId)
    .where('state', '=', 'running')
    .execute()
  return rows.map(toCommand)
}

const toCommand = (row: Selectable<Tables['commands']>): CommandRow => ({
  ...present({ result: fromOptionalJson<object>(row.result_json), actor: fromOptionalText(row.actor) }),
  id: row.id,
  runId: row.run_id,
  state: row.state,
  request: fromJson<unknown>(row.request_json),
})
