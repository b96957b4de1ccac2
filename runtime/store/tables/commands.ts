import { present, toJson, toOptionalText, toText } from '../codec.ts'
import { CommandStates } from '../columns.ts'
import type { Scope } from '../engine.ts'
import { RowReader } from '../row-reader.ts'
import type { CommandRow, NewCommand } from '../store.ts'

export async function insertCommand({ db }: Scope, command: NewCommand): Promise<void> {
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

function toCommand(row: object): CommandRow {
  const at = new RowReader('commands', row)
  return {
    ...present({ result: at.optionalAnyJson('result_json'), actor: at.optionalText('actor') }),
    id: at.plain('id'),
    runId: at.plain('run_id'),
    state: at.oneOf('state', CommandStates),
    request: at.anyJson('request_json'),
  }
}
