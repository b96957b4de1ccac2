import { hashApiKey } from '../../runtime/api/http/api-key.ts'
import type { ApiKeyRow, IdempotencyKey, IdempotencyRow } from '../../runtime/store/service-rows.ts'
import type { Store } from '../../runtime/store/store.ts'

/** The part of the store that the HTTP layer uses, in memory. */
export class MemoryStore implements Pick<Store, 'readApiKey' | 'readIdempotencyKey' | 'writeIdempotencyKey'> {
  readonly keys = new Map<string, ApiKeyRow>()
  readonly idempotency = new Map<string, IdempotencyRow>()

  addKey(key: string, owner: string, role: ApiKeyRow['role'] = 'user'): string {
    const hash = hashApiKey(key)
    this.keys.set(hash, {
      id: `key_${this.keys.size + 1}`,
      hash,
      owner,
      role,
      createdAt: '2026-01-01T00:00:00.000Z',
    })
    return key
  }

  async readApiKey(hash: string) {
    return this.keys.get(hash)
  }

  async insertApiKey(row: ApiKeyRow) {
    if (this.keys.has(row.hash)) throw new Error('UNIQUE constraint failed: api_keys.hash')
    this.keys.set(row.hash, row)
  }

  async countApiKeys() {
    return this.keys.size
  }

  async readIdempotencyKey({ owner, key }: IdempotencyKey) {
    return this.idempotency.get(`${owner} ${key}`)
  }

  async insertIdempotencyKey(row: IdempotencyRow) {
    if (await this.readIdempotencyKey(row)) return false
    await this.writeIdempotencyKey(row)
    return true
  }

  async writeIdempotencyKey(row: IdempotencyRow) {
    this.idempotency.set(`${row.owner} ${row.key}`, row)
  }
}
