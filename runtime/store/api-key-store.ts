import type { ApiKeyQuery, ApiKeyRow } from './service-rows.ts'

export interface ApiKeyStore {
  /** Finds keys that are revoked or expired, too. */
  readApiKey(hash: string): Promise<ApiKeyRow | undefined>
  /** Counts revoked and expired keys, too. */
  countApiKeys(): Promise<number>
  /** Newest first, with the keys that are revoked or expired. */
  listApiKeys(query: ApiKeyQuery): Promise<{ items: ApiKeyRow[]; next?: string }>
  /** The ids among these whose key is revoked, expired or absent. */
  listUnusableApiKeys(ids: readonly string[], now: string): Promise<string[]>
  noteApiKeyUse(id: string, at: string): Promise<void>
}

export interface ApiKeyTransaction {
  insertApiKey(row: ApiKeyRow): Promise<void>
  readApiKeyById(id: string): Promise<ApiKeyRow | undefined>
  /** Keys that are neither revoked nor expired, of one owner or created with one key. Oldest first. */
  listUsableApiKeys(
    of: { readonly owner: string } | { readonly createdWith: string },
    page: { readonly now: string; readonly limit: number },
  ): Promise<ApiKeyRow[]>
  /** Returns false if the key does not exist or is revoked already. */
  revokeApiKey(id: string, revocation: { readonly at: string; readonly by: string }): Promise<boolean>
}
