import type { UserCredentialRow } from './service-rows.ts'

/** Setting that changes with every change of a credential. */
export const USER_CREDENTIALS_REVISION = 'user-credentials-revision'

export type UserCredentialKey = Pick<UserCredentialRow, 'owner' | 'kind' | 'target'>

export interface UserCredentialStore {
  /** Of one owner, or of all owners, by owner, kind and target. */
  listUserCredentials(owner?: string): Promise<UserCredentialRow[]>
  noteUserCredentialUse(of: Pick<UserCredentialRow, 'owner' | 'fingerprint'>, at: string): Promise<void>
}

export interface UserCredentialTransaction extends UserCredentialStore {
  /** Replaces the credential of the same owner, kind and target. */
  writeUserCredential(row: UserCredentialRow): Promise<void>
  /** Returns false if there is none. */
  deleteUserCredential(key: UserCredentialKey): Promise<boolean>
}
