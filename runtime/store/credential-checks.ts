import type { CredentialCheckPlan, CredentialVerdict } from '../../contracts/credential-check.ts'
import type { UserCredentialRow } from './service-rows.ts'

/** A credential whose server is to be asked. It is not stored yet. */
export interface CredentialCheckRow {
  readonly id: string
  /** The value is encrypted, or in the vault. */
  readonly credential: UserCredentialRow
  readonly plan: CredentialCheckPlan
}

/** Checks that wait at the same time, of one owner and of all owners. Each lasts for seconds. */
export const WAITING_CHECKS = { perOwner: 4, inAll: 64 } as const

/** `owner_limit`: too many checks of this owner are waiting. `limit`: too many checks of all owners are. */
export type CheckInsertion = 'inserted' | 'owner_limit' | 'limit'

/** Any process of the API may create a check, and any other one may give it to a replica of the egress proxy. */
export interface CredentialCheckStore {
  /** `ms`: after this time, no replica gets the check any more. Inserts nothing if too many are waiting. */
  insertCredentialCheck(check: CredentialCheckRow, ms: number): Promise<CheckInsertion>
  /** The checks that no replica has begun, the oldest first. */
  listCredentialChecks(): Promise<string[]>
  /** Returns the check to one caller only, and undefined to all others and after its time. */
  claimCredentialCheck(id: string): Promise<CredentialCheckRow | undefined>
  /** Records the verdict of a check that was begun. The first one stays. */
  endCredentialCheck(id: string, verdict: CredentialVerdict): Promise<void>
  /** Returns `waiting` until the verdict is recorded, and undefined if the check does not exist, for example after an erasure. */
  readCredentialVerdict(id: string): Promise<CredentialVerdict | 'waiting' | undefined>
  deleteCredentialCheck(id: string): Promise<void>
}
