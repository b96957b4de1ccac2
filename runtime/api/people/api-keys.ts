import type {
  ApiKey,
  ApiKeyPage,
  CreateApiKey,
  CreatedApiKey,
  RevokedApiKey,
} from '../../../contracts/api-keys.ts'
import { KEY_LIMITS } from '../../../contracts/api-keys.ts'
import type { AuditDraft } from '../../audit/chain.ts'
import { SandboxError } from '../../kit/errors.ts'
import { present } from '../../kit/present.ts'
import type { ApiKeyRow } from '../../store/service-rows.ts'
import type { Store, Transaction } from '../../store/store.ts'
import { generateApiKey, hashApiKey } from '../http/api-key.ts'
import type { AuditTrail } from '../runs/audit-trail.ts'
import { timeOrderedId } from '../runs/ids.ts'
import type { Caller } from '../runs/service.ts'
import { keyProblem } from './key-state.ts'
import { mayGrant, readsWholeAudit } from './rights.ts'

/** API keys as callers create, see and revoke them. */
export interface KeyService {
  /** The only result with the secret. `forbidden` for rights that the caller does not have, `conflict` for too many keys. */
  create(caller: Caller, wanted: CreateApiKey): Promise<CreatedApiKey>
  /** Newest first: the keys of the caller, or of all owners for operators and auditors. */
  list(
    caller: Caller,
    page: { readonly limit: number; readonly after?: string | undefined },
  ): Promise<ApiKeyPage>
  /** In force for every later request in every process. Revoking a key again changes nothing. */
  revoke(caller: Caller, id: string): Promise<RevokedApiKey>
}

type Deps = {
  readonly store: Pick<Store, 'transaction' | 'listApiKeys'>
  readonly audit: Pick<AuditTrail, 'append'>
  readonly now: () => Date
}

const DAY_MS = 86_400_000
const MAX_LISTED = 100

export function createKeyService({ store, audit, now }: Deps): KeyService {
  /** Changes of keys happen one after the other, and only with a key that is still valid at that moment. */
  async function begin(tx: Transaction, { apiKeyId }: Caller): Promise<ApiKeyRow | undefined> {
    await tx.auditHead('')
    if (apiKeyId === undefined) return undefined
    const own = await tx.readApiKeyById(apiKeyId)
    const problem = own ? keyProblem(own, now()) : 'The API key is not valid.'
    if (own && problem === undefined) return own
    throw new SandboxError('unauthenticated', problem ?? 'The API key is not valid.')
  }

  async function refuseMore(tx: Transaction, owner: string): Promise<void> {
    const page = { now: now().toISOString(), limit: KEY_LIMITS.maxPerOwner }
    const usable = await tx.listUsableApiKeys({ owner }, page)
    if (usable.length < KEY_LIMITS.maxPerOwner) return
    throw new SandboxError(
      'conflict',
      `${owner} has ${usable.length} active API keys, which is the limit. Revoke one first.`,
    )
  }

  return {
    async create(caller, wanted) {
      const secret = generateApiKey()
      const row = await store.transaction(async (tx) => {
        const creator = await begin(tx, caller)
        const asked = newRow(caller, wanted, now())
        refuseMoreRights(caller, asked)
        const created = {
          ...asked,
          hash: hashApiKey(secret),
          expiresAt: expiryOf(wanted, creator, now()),
          ...present({ createdWith: creator?.id }),
        }
        await refuseMore(tx, created.owner)
        await tx.insertApiKey(created)
        await audit.append(tx, '', [creationRecord(created, `person:${caller.owner}`)])
        await caller.keep?.(tx, toApiKey(created, now()))
        return created
      })
      return { ...toApiKey(row, now()), key: secret }
    },

    async list(caller, { limit, after }) {
      const owner = readsWholeAudit(caller) ? undefined : caller.owner
      const page = await store.listApiKeys({ limit, ...present({ owner, after }) })
      return { items: page.items.map((row) => toApiKey(row, now())), ...present({ next: page.next }) }
    },

    async revoke(caller, id) {
      return store.transaction(async (tx) => {
        await begin(tx, caller)
        const row = await requireRevocable(tx, caller, id)
        const at = now().toISOString()
        const isNew = await tx.revokeApiKey(id, { at, by: caller.owner })
        if (isNew) await audit.append(tx, '', [revocationRecord(row, caller, at)])
        const made = await tx.listUsableApiKeys({ createdWith: id }, { now: at, limit: MAX_LISTED })
        const revoked = {
          ...toApiKey((await tx.readApiKeyById(id)) ?? row, now()),
          stillActive: made.map((key) => key.id),
        }
        await caller.keep?.(tx, revoked)
        return revoked
      })
    },
  }
}

const newRow = (caller: Caller, { name, role, owner }: CreateApiKey, at: Date) => ({
  id: timeOrderedId('key', at),
  name,
  role,
  owner: owner ?? caller.owner,
  createdAt: at.toISOString(),
  createdBy: caller.owner,
})

function refuseMoreRights(caller: Caller, { role, owner }: Pick<ApiKeyRow, 'role' | 'owner'>): void {
  if (!mayGrant(caller, role))
    throw new SandboxError(
      'forbidden',
      `With the role ${caller.role} you cannot create a key with the role ${role}. Ask an operator for it.`,
    )
  if (owner !== caller.owner && caller.role !== 'operator')
    throw new SandboxError('forbidden', 'Only an operator can create a key for another owner.')
}

/** A key that expires creates no key that is valid for longer. */
function expiryOf({ expiresInDays }: CreateApiKey, creator: ApiKeyRow | undefined, at: Date): string {
  const wanted = new Date(at.getTime() + (expiresInDays ?? KEY_LIMITS.defaultDays) * DAY_MS).toISOString()
  const limit = creator?.expiresAt
  if (limit === undefined || wanted <= limit) return wanted
  if (expiresInDays === undefined) return limit
  throw new SandboxError(
    'forbidden',
    `Your own key expires at ${limit}, so a key that you create with it cannot be valid for ${expiresInDays} days. Leave out the expiry to use the same one.`,
  )
}

async function requireRevocable(tx: Transaction, caller: Caller, id: string): Promise<ApiKeyRow> {
  const row = await tx.readApiKeyById(id)
  if (!row || (row.owner !== caller.owner && caller.role !== 'operator'))
    throw new SandboxError('not_found', `There is no API key ${id}.`)
  if (!mayGrant(caller, row.role))
    throw new SandboxError(
      'forbidden',
      `With the role ${caller.role} you cannot revoke a key with the role ${row.role}. Ask an operator.`,
    )
  // Otherwise the last operator could lock everyone out.
  if (id === caller.apiKeyId)
    throw new SandboxError(
      'conflict',
      `${id} is the key of this request. Create another key, and revoke this one with it.`,
    )
  return row
}

export function toApiKey({ hash: _hash, ...row }: ApiKeyRow, at: Date): ApiKey {
  const isExpired = row.expiresAt !== undefined && Date.parse(row.expiresAt) <= at.getTime()
  return { ...row, state: row.revokedAt !== undefined ? 'revoked' : isExpired ? 'expired' : 'active' }
}

export const creationRecord = (row: ApiKeyRow, actor: string): AuditDraft => ({
  kind: 'key.created',
  runId: '',
  callId: row.id,
  actor,
  tool: 'key.create',
  policyVersion: '',
  reasons: [
    `role ${row.role}`,
    `owner ${row.owner}`,
    ...(row.expiresAt === undefined ? [] : [`expires ${row.expiresAt}`]),
    ...(row.createdWith === undefined ? [] : [`created with ${row.createdWith}`]),
  ],
  at: row.createdAt,
})

const revocationRecord = ({ id, role, owner }: ApiKeyRow, caller: Caller, at: string): AuditDraft => ({
  kind: 'key.revoked',
  runId: '',
  callId: id,
  actor: `person:${caller.owner}`,
  tool: 'key.revoke',
  policyVersion: '',
  reasons: [
    `role ${role}`,
    `owner ${owner}`,
    ...(caller.apiKeyId === undefined ? [] : [`revoked with ${caller.apiKeyId}`]),
  ],
  at,
})
