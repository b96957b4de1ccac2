import { toText } from '../codec.ts'
import type { Scope } from '../engine.ts'

export async function lockIfFree({ db, engine }: Scope, id: string): Promise<boolean> {
  const query = db.selectFrom('runs').select('id').where('id', '=', toText(id))
  return (await engine.lockFreeRows(query).executeTakeFirst()) !== undefined
}
