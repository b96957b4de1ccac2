import { sql } from 'kysely'
import * as z from 'zod'
import { CredentialCheckPlan, CredentialVerdict } from '../../../contracts/credential-check.ts'
import { toJson, toText } from '../codec.ts'
import { UserCredentialKinds } from '../columns.ts'
import {
  type CheckInsertion,
  type CredentialCheckRow,
  type CredentialCheckStore,
  WAITING_CHECKS,
} from '../credential-checks.ts'
import type { Scope } from '../engine.ts'
import { RowReader } from '../row-reader.ts'
import type { Write } from './blobs.ts'

const Credential = z.strictObject({
  owner: z.string(),
  kind: UserCredentialKinds,
  target: z.string(),
  user: z.string().exactOptional(),
  fingerprint: z.string(),
  sealed: z.string(),
  keyId: z.string(),
  setAt: z.string(),
})

const idOf = (row: object): string => new RowReader('credential_checks', row).plain('id')

function toCheck(row: object): CredentialCheckRow {
  const at = new RowReader('credential_checks', row)
  return {
    id: at.plain('id'),
    credential: at.json('credential_json', Credential),
    plan: at.json('plan_json', CredentialCheckPlan),
  }
}

/** Deletes the checks whose time is over. Returns their number. */
export async function deleteOldChecks({ db, engine }: Scope): Promise<number> {
  const { numDeletedRows } = await db
    .deleteFrom('credential_checks')
    .where('until_ms', '<=', engine.nowMs)
    .executeTakeFirstOrThrow()
  return Number(numDeletedRows)
}

async function insertCheck(scope: Scope, check: CredentialCheckRow, ms: number): Promise<CheckInsertion> {
  const { db, engine } = scope
  // Two checks at the same moment must not both get the last place.
  await engine.lockAdmission(db)
  await deleteOldChecks(scope)
  const waiting = await db.selectFrom('credential_checks').select('owner').execute()
  const owner = toText(check.credential.owner)
  if (waiting.filter((one) => one.owner === owner).length >= WAITING_CHECKS.perOwner) return 'owner_limit'
  if (waiting.length >= WAITING_CHECKS.inAll) return 'limit'
  const row = {
    id: check.id,
    owner,
    credential_json: toJson(check.credential),
    plan_json: toJson(check.plan),
    until_ms: sql<number>`${engine.nowMs} + ${sql.lit(Math.round(ms))}`,
    is_claimed: 0,
    verdict_json: null,
  }
  await db.insertInto('credential_checks').values(row).execute()
  return 'inserted'
}

/** One statement, so that only one of two callers gets the check. */
async function claimCheck({ db, engine }: Scope, id: string): Promise<CredentialCheckRow | undefined> {
  const row = await db
    .updateTable('credential_checks')
    .set({ is_claimed: 1 })
    .where('id', '=', id)
    .where('is_claimed', '=', 0)
    .where('until_ms', '>', engine.nowMs)
    .returningAll()
    .executeTakeFirst()
  return row && toCheck(row)
}

async function endCheck({ db }: Scope, id: string, verdict: CredentialVerdict): Promise<void> {
  await db
    .updateTable('credential_checks')
    .set({ verdict_json: toJson(verdict) })
    .where('id', '=', id)
    .where('is_claimed', '=', 1)
    .where('verdict_json', 'is', null)
    .execute()
}

async function listChecks({ db, engine }: Scope): Promise<string[]> {
  const rows = await db
    .selectFrom('credential_checks')
    .select('id')
    .where('is_claimed', '=', 0)
    .where('until_ms', '>', engine.nowMs)
    .orderBy('until_ms')
    .orderBy('id')
    .execute()
  return rows.map(idOf)
}

async function readVerdict({ db }: Scope, id: string): Promise<CredentialVerdict | 'waiting' | undefined> {
  const row = await db
    .selectFrom('credential_checks')
    .select('verdict_json')
    .where('id', '=', id)
    .executeTakeFirst()
  if (!row) return undefined
  return new RowReader('credential_checks', row).optionalJson('verdict_json', CredentialVerdict) ?? 'waiting'
}

export const credentialCheckStore = (reading: Scope, write: Write): CredentialCheckStore => ({
  insertCredentialCheck: (check, ms) => write((scope) => insertCheck(scope, check, ms)),
  listCredentialChecks: () => listChecks(reading),
  claimCredentialCheck: (id) => write((scope) => claimCheck(scope, id)),
  endCredentialCheck: (id, verdict) => write((scope) => endCheck(scope, id, verdict)),
  readCredentialVerdict: (id) => readVerdict(reading, id),
  deleteCredentialCheck: (id) =>
    write(async ({ db }) => {
      await db.deleteFrom('credential_checks').where('id', '=', id).execute()
    }),
})
