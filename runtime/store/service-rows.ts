import type { RestrictionLevel, RestrictionScope } from '../../contracts/restrictions.ts'

export interface ApiKeyRow {
  readonly id: string
  /** SHA-256 of the key, hex. */
  readonly hash: string
  readonly owner: string
  readonly role: 'user' | 'auditor' | 'approver' | 'operator'
  readonly createdAt: string
  /** What the key is for. Absent for the first key of a store. */
  readonly name?: string
  /** Owner who created the key. Absent if the service created it. */
  readonly createdBy?: string
  /** Id of the key that created it. Absent if the service or a signed-in person created it. */
  readonly createdWith?: string
  readonly expiresAt?: string
  readonly revokedAt?: string
  readonly revokedBy?: string
  readonly lastUsedAt?: string
}

/** `owner` undefined: the keys of all owners. `after` is the `next` of the previous page. */
export type ApiKeyQuery = {
  readonly owner?: string
  readonly after?: string
  readonly limit: number
}

/** The settings that are in force in one folder, for the runs of one owner. */
export interface TrustedFolder {
  readonly owner: string
  /** The folder's real path. */
  readonly path: string
  /**
   * The content of the settings file when it was accepted; absent if there was no file, in which case the defaults
   * apply.
   */
  readonly settings?: string
  readonly origin: 'first_run' | 'trust'
  readonly trustedAt: string
}

/** The last restriction of a scope. The level `normal` keeps who lifted it, and why. */
export interface RestrictionRow {
  readonly scope: RestrictionScope
  /** Owner of the restricted run, or the restricted owner. Absent for all runs. */
  readonly owner?: string
  readonly level: RestrictionLevel
  readonly reason: string
  /** Owner of the API key that set it, and the role of that key. */
  readonly by: string
  readonly role: ApiKeyRow['role']
  readonly at: string
}

/** A credential that an owner has set for the own runs. */
export interface UserCredentialRow {
  readonly owner: string
  readonly kind: 'github' | 'git' | 'openai-compatible' | 'registry'
  /** Where it is used: a host, or the base URL of a model server. */
  readonly target: string
  /** The user of Basic authentication. */
  readonly user?: string
  readonly fingerprint: string
  /** The value, encrypted with a key that the store does not have. */
  readonly sealed: string
  /** Fingerprint of the deployment key. */
  readonly keyId: string
  readonly setAt: string
  readonly lastUsedAt?: string
}

/** The response of a mutation, stored under its idempotency key. */
export type IdempotencyRow = {
  readonly owner: string
  readonly key: string
  /** SHA-256 over method, path and body. */
  readonly fingerprint: string
  readonly status: number
  readonly body: string
  readonly createdAt: string
}

export type IdempotencyKey = Pick<IdempotencyRow, 'owner' | 'key'>
