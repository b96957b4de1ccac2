import type { IdempotencyKey, IdempotencyRow } from './service-rows.ts'

export interface IdempotencyStore {
  /** The response stored under a key; a response older than 24 h is ignored. */
  readIdempotencyKey(key: IdempotencyKey, now: Date): Promise<IdempotencyRow | undefined>
  /** Stores a response outside a transaction, or replaces the response that a transaction stored. */
  writeIdempotencyKey(row: IdempotencyRow): Promise<void>
}
