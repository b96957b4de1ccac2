import { hashApiKey } from '../../runtime/api/http/api-key.ts'
import type { ApiKeyRow, IdempotencyRow, Store } from '../../runtime/store/store.ts'

/** The part of the store that HTTP itself uses, in memory. */
export class MemoryStore
  implements Pick<Store, 'readApiKey' | 'claimIdempotencyKey' | 'finishIdempotencyKey'>
{
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

  async claimIdempotencyKey(row: Omit<IdempotencyRow, 'state'>) {
    const name = `${row.owner} ${row.key}`
    const held = this.idempotency.get(name)
    if (held) return { fresh: false as const, row: held }
    this.idempotency.set(name, { ...row, state: 'pending' })
    return { fresh: true as const }
  }

  async finishIdempotencyKey(
    owner: string,
    key: string,
    answer: { status: number; body: string } | undefined,
  ) {
    const name = `${owner} ${key}`
    const held = this.idempotency.get(name)
    if (!held) return
    if (answer) this.idempotency.set(name, { ...held, ...answer, state: 'done' })
    else this.idempotency.delete(name)
  }
}
