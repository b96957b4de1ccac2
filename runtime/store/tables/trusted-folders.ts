import { createHash } from 'node:crypto'
import { type Selectable, sql } from 'kysely'
import { SandboxError } from '../../kit/errors.ts'
import { present, toOptionalText, toText } from '../codec.ts'
import { FolderOrigins } from '../columns.ts'
import type { Scope } from '../engine.ts'
import { RowReader } from '../row-reader.ts'
import type { Tables } from '../schema.ts'
import type { TrustedFolder } from '../service-rows.ts'
import type { Store } from '../store.ts'

type Row = Selectable<Tables['trusted_folders']>
type Filter = Parameters<Store['listTrustedFolders']>[0]
type Page = Awaited<ReturnType<Store['listTrustedFolders']>>

const idOf = (path: string): string => createHash('sha256').update(toText(path)).digest('hex')

const toRow = (folder: TrustedFolder): Row => ({
  owner: toText(folder.owner),
  id: idOf(folder.path),
  path: toText(folder.path),
  settings: toOptionalText(folder.settings),
  origin: folder.origin,
  trusted_at: folder.trustedAt,
})

function toFolderKey(row: object): Omit<TrustedFolder, 'settings'> {
  const at = new RowReader('trusted_folders', row)
  return {
    owner: at.text('owner'),
    path: at.text('path'),
    origin: at.oneOf('origin', FolderOrigins),
    trustedAt: at.plain('trusted_at'),
  }
}

const toFolder = (row: object): TrustedFolder => ({
  ...present({ settings: new RowReader('trusted_folders', row).optionalText('settings') }),
  ...toFolderKey(row),
})

/** Of two simultaneous first runs, one stores its settings and the other receives those settings. */
export async function trustFirst(
  scope: Scope,
  folder: TrustedFolder,
): Promise<{ folder: TrustedFolder; isFirst: boolean }> {
  const { numInsertedOrUpdatedRows } = await scope.db
    .insertInto('trusted_folders')
    .values(toRow(folder))
    .onConflict((conflict) => conflict.doNothing())
    .executeTakeFirstOrThrow()
  if (numInsertedOrUpdatedRows === 1n) return { folder, isFirst: true }
  const found = await readTrustedFolder(scope, folder.owner, folder.path)
  if (found) return { folder: found, isFirst: false }
  throw new SandboxError('unavailable', `The settings of ${folder.path} were just removed: try again.`)
}

export async function readTrustedFolder(
  { db }: Scope,
  owner: string,
  path: string,
): Promise<TrustedFolder | undefined> {
  const row = await db
    .selectFrom('trusted_folders')
    .selectAll()
    .where('owner', '=', toText(owner))
    .where('id', '=', idOf(path))
    .executeTakeFirst()
  return row && toFolder(row)
}

export async function writeTrustedFolder({ db }: Scope, folder: TrustedFolder): Promise<void> {
  const row = toRow(folder)
  const { settings, origin, trusted_at } = row
  await db
    .insertInto('trusted_folders')
    .values(row)
    .onConflict((conflict) => conflict.columns(['owner', 'id']).doUpdateSet({ settings, origin, trusted_at }))
    .execute()
}

export async function deleteTrustedFolder({ db }: Scope, owner: string, path: string): Promise<boolean> {
  const { numDeletedRows } = await db
    .deleteFrom('trusted_folders')
    .where('owner', '=', toText(owner))
    .where('id', '=', idOf(path))
    .executeTakeFirstOrThrow()
  return numDeletedRows > 0n
}

/** Without the texts: a page of them could have megabytes. */
export async function listTrustedFolders(scope: Scope, { owner, after, limit }: Filter): Promise<Page> {
  const position = after === undefined ? undefined : await positionOf(scope, owner, after)
  let query = scope.db
    .selectFrom('trusted_folders')
    .select(['owner', 'id', 'path', 'origin', 'trusted_at'])
    .select(sql<number>`case when settings is null then 0 else 1 end`.as('has_file'))
    .where('owner', '=', toText(owner))
    .orderBy('trusted_at', 'desc')
    .orderBy('id', 'desc')
    .limit(limit + 1)
  if (position) {
    query = query.where(({ eb, refTuple, tuple }) =>
      eb(refTuple('trusted_at', 'id'), '<', tuple(position.trusted_at, position.id)),
    )
  }
  const rows = await query.execute()
  const kept = rows.slice(0, limit)
  const items = kept.map((row) => ({ ...toFolderKey(row), hasFile: row.has_file === 1 }))
  const last = kept.at(-1)
  return rows.length > limit && last ? { items, next: last.id } : { items }
}

async function positionOf({ db }: Scope, owner: string, id: string): Promise<Pick<Row, 'trusted_at' | 'id'>> {
  const row = await db
    .selectFrom('trusted_folders')
    .select(['trusted_at', 'id'])
    .where('owner', '=', toText(owner))
    .where('id', '=', toText(id))
    .executeTakeFirst()
  if (row) return row
  throw new SandboxError('invalid_request', 'The cursor `after` names no folder: start from the first page.')
}
