import { randomUUID } from 'node:crypto'
import { chmod, link, readFile, unlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { API_KEY_FILE } from '../../../contracts/api-env.ts'
import { errnoOf, SandboxError } from '../../kit/errors.ts'
import type { Store, Transaction } from '../../store/store.ts'
import { generateApiKey, hashApiKey, isApiKey } from '../http/api-key.ts'
import { keyProblem } from '../people/key-state.ts'

/** The operations on API keys that a start needs. */
export type KeyStore = Pick<Store, 'readApiKey' | 'countApiKeys'> & Pick<Transaction, 'insertApiKey'>
/** Owner of the first key. */
const LOCAL_OWNER = 'local'

/** Adds the provided operator's key to a store without keys. */
export async function ensureGivenApiKey(
  store: KeyStore,
  { apiKey, now }: { apiKey: string; now: () => Date },
): Promise<void> {
  if (!isApiKey(apiKey))
    throw new SandboxError(
      'invalid_config',
      'the provided first API key is malformed; create one with npm run keys',
    )
  if ((await store.countApiKeys()) > 0) return
  await insertOnce(store, { hash: hashApiKey(apiKey), createdAt: now().toISOString() })
}

/**
 * Creates the API key of a new store and its file (mode 0600) and returns the file's path. Returns undefined if the store
 * has keys and the file is missing or its key is not valid any more. The file is written first: after a crash in between, the next start adds its key to the
 * store.
 */
export async function ensureFirstApiKey(
  store: KeyStore,
  { stateDir, now }: { stateDir: string; now: () => Date },
): Promise<string | undefined> {
  const file = join(stateDir, API_KEY_FILE)
  const isNew = (await store.countApiKeys()) === 0
  if (isNew) await writeNewFile(file, `${generateApiKey()}\n`)
  const key = await readKeyFile(file)
  if (key === undefined) return undefined
  const hash = hashApiKey(key)
  if (isNew) await insertOnce(store, { hash, createdAt: now().toISOString() })
  const row = await store.readApiKey(hash)
  return row && keyProblem(row, now()) === undefined ? file : undefined
}

/** Two processes may start with the same file. It does not matter which of them inserts the row. */
async function insertOnce(store: KeyStore, key: { hash: string; createdAt: string }): Promise<void> {
  try {
    await store.insertApiKey({ ...key, id: `key_${randomUUID()}`, owner: LOCAL_OWNER, role: 'operator' })
  } catch (error) {
    if (!(await store.readApiKey(key.hash))) throw error
  }
}

/** Writes a complete file or none. An existing file is kept. */
async function writeNewFile(file: string, content: string): Promise<void> {
  const temporary = `${file}.${randomUUID()}`
  await writeFile(temporary, content, { flag: 'wx', mode: 0o600 })
  try {
    await link(temporary, file)
  } catch (error) {
    if (errnoOf(error) !== 'EEXIST') throw error
  } finally {
    await unlink(temporary)
  }
}

async function readKeyFile(file: string): Promise<string | undefined> {
  let text: string
  try {
    text = await readFile(file, 'utf8')
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return undefined
    throw error
  }
  const key = text.trim()
  if (!isApiKey(key))
    throw new SandboxError('invalid_config', `${file} contains no API key. Remove the file to get a new key.`)
  await chmod(file, 0o600)
  return key
}
