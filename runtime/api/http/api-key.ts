import { createHash, randomBytes } from 'node:crypto'
import { equalsInConstantTime } from '../../kit/constant-time.ts'
import type { ApiKeyRow } from '../../store/service-rows.ts'
import type { Store } from '../../store/store.ts'

/** Prefix for secret scanners and people, followed by 32 random bytes in base64url. */
const API_KEY_PREFIX = 'awk_'
const API_KEY = /^awk_[A-Za-z0-9_-]{43}$/

export const isApiKey = (text: string): boolean => API_KEY.test(text)

export const generateApiKey = (): string => `${API_KEY_PREFIX}${randomBytes(32).toString('base64url')}`

/** Hash of a key for the store. A plain hash is enough, because a key has 256 random bits. */
export const hashApiKey = (key: string): string => createHash('sha256').update(key, 'utf8').digest('hex')

/** Finds the row of a key. Returns undefined if the key is malformed or unknown. */
export async function findApiKey(
  store: Pick<Store, 'readApiKey'>,
  key: string,
): Promise<ApiKeyRow | undefined> {
  if (!isApiKey(key)) return undefined
  const hash = hashApiKey(key)
  const row = await store.readApiKey(hash)
  return row && equalsInConstantTime(row.hash, hash) ? row : undefined
}
