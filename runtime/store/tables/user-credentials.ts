import { randomUUID } from 'node:crypto'
import type { Selectable } from 'kysely'
import { present, toOptionalText, toText } from '../codec.ts'
import { UserCredentialKinds } from '../columns.ts'
import type { Scope } from '../engine.ts'
import { RowReader } from '../row-reader.ts'
import type { Tables } from '../schema.ts'
import type { UserCredentialRow } from '../service-rows.ts'
import {
  USER_CREDENTIALS_REVISION,
  type UserCredentialKey,
  type UserCredentialStore,
  type UserCredentialTransaction,
} from '../user-credential-store.ts'
import type { Write } from './blobs.ts'
import { writeSetting } from './settings.ts'

type Row = Selectable<Tables['user_credentials']>

const toRow = (credential: UserCredentialRow): Row => ({
  owner: toText(credential.owner),
  kind: credential.kind,
  target: toText(credential.target),
  user_name: toOptionalText(credential.user),
  fingerprint: credential.fingerprint,
  sealed: credential.sealed,
  key_id: credential.keyId,
  set_at: credential.setAt,
  last_used_at: credential.lastUsedAt ?? null,
})

function toCredential(row: object): UserCredentialRow {
  const at = new RowReader('user_credentials', row)
  return {
    owner: at.text('owner'),
    kind: at.oneOf('kind', UserCredentialKinds),
    target: at.text('target'),
    fingerprint: at.plain('fingerprint'),
    sealed: at.plain('sealed'),
    keyId: at.plain('key_id'),
    setAt: at.plain('set_at'),
    ...present({ user: at.optionalText('user_name'), lastUsedAt: at.optionalPlain('last_used_at') }),
  }
}

async function listUserCredentials({ db }: Scope, owner?: string): Promise<UserCredentialRow[]> {
  let query = db.selectFrom('user_credentials').selectAll().orderBy('owner').orderBy('kind').orderBy('target')
  if (owner !== undefined) query = query.where('owner', '=', toText(owner))
  const rows = await query.execute()
  return rows.map(toCredential)
}

/** Replaces the credential of the same owner, kind and target. */
async function writeUserCredential(scope: Scope, credential: UserCredentialRow): Promise<void> {
  const row = toRow(credential)
  const { owner: _owner, kind: _kind, target: _target, ...change } = row
  await scope.db
    .insertInto('user_credentials')
    .values(row)
    .onConflict((conflict) => conflict.columns(['owner', 'kind', 'target']).doUpdateSet(change))
    .execute()
  await announceChange(scope)
}

/** Returns false if there is none. */
async function deleteUserCredential(
  scope: Scope,
  { owner, kind, target }: UserCredentialKey,
): Promise<boolean> {
  const { numDeletedRows } = await scope.db
    .deleteFrom('user_credentials')
    .where('owner', '=', toText(owner))
    .where('kind', '=', kind)
    .where('target', '=', toText(target))
    .executeTakeFirstOrThrow()
  await announceChange(scope)
  return numDeletedRows > 0n
}

export async function deleteUserCredentialsOf(scope: Scope, owner: string): Promise<void> {
  await scope.db.deleteFrom('user_credentials').where('owner', '=', toText(owner)).execute()
  await scope.db.deleteFrom('credential_checks').where('owner', '=', toText(owner)).execute()
  await announceChange(scope)
}

/** Processes that have read the credentials look at this setting. */
const announceChange = (scope: Scope): Promise<void> =>
  writeSetting(scope, USER_CREDENTIALS_REVISION, randomUUID())

async function noteUserCredentialUse(
  { db }: Scope,
  { owner, fingerprint }: Pick<UserCredentialRow, 'owner' | 'fingerprint'>,
  at: string,
): Promise<void> {
  await db
    .updateTable('user_credentials')
    .set({ last_used_at: at })
    .where('owner', '=', toText(owner))
    .where('fingerprint', '=', fingerprint)
    .where(({ eb }) => eb.or([eb('last_used_at', 'is', null), eb('last_used_at', '<', at)]))
    .execute()
}

export const userCredentialStore = (reading: Scope, write: Write): UserCredentialStore => ({
  listUserCredentials: (owner) => listUserCredentials(reading, owner),
  noteUserCredentialUse: (of, at) => write((scope) => noteUserCredentialUse(scope, of, at)),
})

export const userCredentialTransaction = (scope: Scope): UserCredentialTransaction => ({
  listUserCredentials: (owner) => listUserCredentials(scope, owner),
  noteUserCredentialUse: (of, at) => noteUserCredentialUse(scope, of, at),
  writeUserCredential: (row) => writeUserCredential(scope, row),
  deleteUserCredential: (key) => deleteUserCredential(scope, key),
})
