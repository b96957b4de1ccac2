import { randomUUID } from 'node:crypto'
import { chmod, link, readFile, unlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { API_KEY_FILE } from '../../../contracts/api-env.ts'
import { errnoOf, SandboxError } from '../../kit/errors.ts'
import type { Store, Transaction } from '../../store/store.ts'
import { generateApiKey, hashApiKey, isApiKey } from '../http/api-key.ts'

/** The API keys of a store, as the first one is put into it. */
export type KeyStore = Pick<Store, 'readApiKey' | 'countApiKeys'> & Pick<Transaction, 'insertApiKey'>
/** Who uses the service of their own machine. */
const LOCAL_OWNER = 'local'

/** Puts the first operator's key, as the deployment was given it, into a store that has none. */
export async function ensureGivenApiKey(
  store: KeyStore,
  { apiKey, now }: { apiKey: string; now: () => Date },
): Promise<void> {
  if (!isApiKey(apiKey))
    throw new SandboxError(
      'invalid_config',
      'what is given as the first API key is none: npm run keys makes one',
    )
  if ((await store.countApiKeys()) > 0) return
  await insertOnce(store, { hash: hashApiKey(apiKey), createdAt: now().toISOString() })
}

/**
 * Makes the API key of a new store and its file, mode 0600, and answers the file's path; undefined where the store
 * has keys of its own and the file is gone. The file comes first: a crash in between leaves a key that the next
 * start puts into the store, never a key that nobody knows.
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
  return (await store.readApiKey(hash)) && file
}

/** Two processes may start at once with the same file; either one's row is the key's. */
async function insertOnce(store: KeyStore, key: { hash: string; createdAt: string }): Promise<void> {
  try {
    await store.insertApiKey({ ...key, id: `key_${randomUUID()}`, owner: LOCAL_OWNER, role: 'operator' })
  } catch (error) {
    if (!(await store.readApiKey(key.hash))) throw error
  }
}

/** A complete file or none; one that is there already stands. */
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
    throw new SandboxError('invalid_config', `${file} holds no API key. Remove it to get a new one.`)
  await chmod(file, 0o600)
  return key
}
