import { toText } from '../codec.ts'
import type { Scope } from '../engine.ts'
import { RowReader } from '../row-reader.ts'

export async function readSetting({ db }: Scope, name: string): Promise<string | undefined> {
  const row = await db
    .selectFrom('settings')
    .select('value')
    .where('name', '=', toText(name))
    .executeTakeFirst()
  return row && new RowReader('settings', row).text('value')
}

export async function writeSetting({ db }: Scope, name: string, value: string): Promise<void> {
  await db
    .insertInto('settings')
    .values({ name: toText(name), value: toText(value) })
    .onConflict((conflict) => conflict.column('name').doUpdateSet({ value: toText(value) }))
    .execute()
}
