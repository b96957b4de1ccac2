import { hashApiKey } from '../../runtime/api/http/api-key.ts'
import type {
  ApiKeyQuery,
  ApiKeyRow,
  IdempotencyKey,
  IdempotencyRow,
  UserCredentialRow,
} from '../../runtime/store/service-rows.ts'
import type { Store, Transaction } from '../../runtime/store/store.ts'

type Stored = Pick<
  Store,
  | 'readApiKey'
  | 'noteApiKeyUse'
  | 'listApiKeys'
  | 'listUnusableApiKeys'
  | 'readIdempotencyKey'
  | 'writeIdempotencyKey'
  | 'engine'
  | 'listUserCredentials'
  | 'noteUserCredentialUse'
  | 'readSetting'
>

/** The part of the store that the HTTP layer uses, in memory. */
export class MemoryStore implements Stored {
  readonly keys = new Map<string, ApiKeyRow>()
  readonly idempotency = new Map<string, IdempotencyRow>()
  readonly engine = 'sqlite'
  userCredentials: readonly UserCredentialRow[] = []

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

  async noteApiKeyUse(id: string, lastUsedAt: string) {
    this.#change(id, { lastUsedAt })
  }

  async listApiKeys({ owner }: ApiKeyQuery) {
    const items = [...this.keys.values()].filter((row) => owner === undefined || row.owner === owner)
    return { items: items.reverse() }
  }

  async listUnusableApiKeys(ids: readonly string[]) {
    return ids.filter((id) => this.#byId(id)?.revokedAt !== undefined)
  }

  async readApiKeyById(id: string) {
    return this.#byId(id)
  }

  async listUsableApiKeys(of: { readonly owner: string } | { readonly createdWith: string }) {
    return [...this.keys.values()].filter(
      (row) =>
        row.revokedAt === undefined &&
        ('owner' in of ? row.owner === of.owner : row.createdWith === of.createdWith),
    )
  }

  async revokeApiKey(id: string, { at, by }: { readonly at: string; readonly by: string }) {
    if (this.#byId(id)?.revokedAt !== undefined) return false
    this.#change(id, { revokedAt: at, revokedBy: by })
    return true
  }

  async listUserCredentials(owner?: string) {
    return this.userCredentials.filter((row) => owner === undefined || row.owner === owner)
  }

  async writeUserCredential(row: UserCredentialRow) {
    await this.deleteUserCredential(row)
    this.userCredentials = [...this.userCredentials, row]
  }

  async deleteUserCredential({ owner, kind, target }: UserCredentialRow) {
    const rest = this.userCredentials.filter(
      (one) => one.owner !== owner || one.kind !== kind || one.target !== target,
    )
    const isFound = rest.length < this.userCredentials.length
    this.userCredentials = rest
    return isFound
  }

  async noteUserCredentialUse() {}

  async readSetting() {
    return undefined
  }

  async writeSetting() {}

  async auditHead() {
    return { count: 0, mac: '' }
  }

  /** Without isolation: the tests of this store change keys one after the other. */
  transaction: Store['transaction'] = (work) => work(this as unknown as Transaction)

  #byId(id: string): ApiKeyRow | undefined {
    return [...this.keys.values()].find((row) => row.id === id)
  }

  #change(id: string, change: Partial<ApiKeyRow>): void {
    const row = this.#byId(id)
    if (row) this.keys.set(row.hash, { ...row, ...change })
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
