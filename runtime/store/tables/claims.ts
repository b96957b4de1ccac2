import { SandboxError } from '../../kit/errors.ts'
import { changed, present, toOptionalJson } from '../codec.ts'
import { ClaimStates } from '../columns.ts'
import type { Scope } from '../engine.ts'
import { RowReader } from '../row-reader.ts'
import type { ClaimRow, NewClaim, Transaction } from '../store.ts'

function toClaim(row: object): ClaimRow {
  const at = new RowReader('claims', row)
  return {
    ...present({
      uid: at.optionalPlain('uid'),
      sandboxUid: at.optionalPlain('sandbox_uid'),
      podUid: at.optionalPlain('pod_uid'),
      handle: at.optionalAnyJson('handle_json'),
    }),
    namespace: at.plain('namespace'),
    name: at.plain('name'),
    generation: at.integer('generation'),
    runId: at.plain('run_id'),
    keyId: at.plain('key_id'),
    state: at.oneOf('state', ClaimStates),
    createdAt: at.plain('created_at'),
  }
}

export async function upsertClaim({ db }: Scope, claim: NewClaim): Promise<void> {
  const row = {
    namespace: claim.namespace,
    name: claim.name,
    generation: claim.generation,
    run_id: claim.runId,
    key_id: claim.keyId,
    state: claim.state,
    uid: claim.uid ?? null,
    sandbox_uid: claim.sandboxUid ?? null,
    pod_uid: claim.podUid ?? null,
    handle_json: toOptionalJson(claim.handle),
    created_at: claim.createdAt,
  }
  await db
    .insertInto('claims')
    .values(row)
    .onConflict((conflict) => conflict.columns(['namespace', 'name', 'generation']).doUpdateSet(row))
    .execute()
}

export type ClaimKey = Pick<ClaimRow, 'namespace' | 'name' | 'generation'>

/** A claim keeps its identity, its run and its age. */
export async function changeClaim({ db }: Scope, key: ClaimKey, change: Partial<NewClaim>): Promise<void> {
  const columns = changed({
    state: change.state,
    key_id: change.keyId,
    uid: change.uid,
    sandbox_uid: change.sandboxUid,
    pod_uid: change.podUid,
    handle_json: toOptionalJson(change.handle) ?? undefined,
  })
  if (Object.keys(columns).length === 0) return
  await db
    .updateTable('claims')
    .set(columns)
    .where('namespace', '=', key.namespace)
    .where('name', '=', key.name)
    .where('generation', '=', key.generation)
    .execute()
}

export async function readClaim({ db }: Scope, key: ClaimKey): Promise<ClaimRow | undefined> {
  const row = await db
    .selectFrom('claims')
    .selectAll()
    .where('namespace', '=', key.namespace)
    .where('name', '=', key.name)
    .where('generation', '=', key.generation)
    .executeTakeFirst()
  return row && toClaim(row)
}

type ClaimIds = Parameters<Transaction['bindClaim']>[1]

/** The unique indexes over both UIDs hold against writers at the same moment, too. */
export async function bindClaim(scope: Scope, key: ClaimKey, ids: ClaimIds): Promise<void> {
  const { uid, sandboxUid, podUid, handle } = ids
  const used = await scope.db
    .selectFrom('claims')
    .select('name')
    .where(({ eb, or }) => or([eb('sandbox_uid', '=', sandboxUid), eb('pod_uid', '=', podUid)]))
    .executeTakeFirst()
  if (used) throw mismatch(`its sandbox or its pod has served the claim ${used.name} already`)
  const bound = await scope.db
    .updateTable('claims')
    .set({
      state: 'bound',
      sandbox_uid: sandboxUid,
      pod_uid: podUid,
      ...(handle !== undefined && { handle_json: toOptionalJson(handle) }),
    })
    .where('namespace', '=', key.namespace)
    .where('name', '=', key.name)
    .where('generation', '=', key.generation)
    .where('state', '=', 'requested')
    .where('uid', '=', uid)
    .executeTakeFirst()
    .catch((error: unknown) => {
      throw mismatch('its sandbox or its pod serves another claim', error)
    })
  if (bound.numUpdatedRows !== 1n) throw mismatch('its row is missing or belongs to another claim')
}

const mismatch = (why: string, cause?: unknown) =>
  new SandboxError('identity_mismatch', `the claim cannot be bound: ${why}`, { cause })

export async function listClaims({ db }: Scope, states: readonly ClaimRow['state'][]): Promise<ClaimRow[]> {
  const rows = await db
    .selectFrom('claims')
    .selectAll()
    .where('state', 'in', states)
    .orderBy('created_at')
    .orderBy('name')
    .execute()
  return rows.map(toClaim)
}
