import { mkdtemp, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { findApiKey, generateApiKey } from '../../../runtime/api/http/api-key.ts'
import { ensureFirstApiKey, ensureGivenApiKey } from '../../../runtime/api/start/first-api-key.ts'
import { preparePrivateFolder } from '../../../runtime/state-folder/prepare-folder.ts'
import { MemoryStore } from '../memory-store.ts'

const now = () => new Date('2026-01-01T00:00:00.000Z')
let stateDir = ''
beforeEach(async () => {
  stateDir = await mkdtemp(join(tmpdir(), 'aw-state-'))
})
afterEach(() => rm(stateDir, { recursive: true, force: true }))

const ensure = (store: MemoryStore) => ensureFirstApiKey(store, { stateDir, now })
const modeOf = async (path: string) => (await stat(path)).mode & 0o777

test('the first start creates an operator key that only its owner can read', async () => {
  const store = new MemoryStore()
  const file = (await ensure(store)) ?? ''
  expect(await modeOf(file)).toBe(0o600)
  const key = (await readFile(file, 'utf8')).trim()
  expect(await findApiKey(store, key)).toMatchObject({ owner: 'local', role: 'operator' })
})

test('a later start keeps it', async () => {
  const store = new MemoryStore()
  const file = (await ensure(store)) ?? ''
  const before = await readFile(file, 'utf8')
  expect(await ensure(store)).toBe(file)
  expect(await readFile(file, 'utf8')).toBe(before)
  expect(store.keys.size).toBe(1)
})

test('two processes that start at the same time use the same file', async () => {
  const store = new MemoryStore()
  await Promise.all([ensure(store), ensure(store)])
  const key = (await readFile(join(stateDir, 'api-key'), 'utf8')).trim()
  expect(await findApiKey(store, key)).toBeDefined()
})

test('the next start repairs a crash between the file and the store', async () => {
  const key = generateApiKey()
  await writeFile(join(stateDir, 'api-key'), `${key}\n`, { mode: 0o644 })
  const store = new MemoryStore()
  const file = (await ensure(store)) ?? ''
  expect(await findApiKey(store, key)).toBeDefined()
  expect(await modeOf(file)).toBe(0o600)
})

test('a store that has keys takes no key from a file', async () => {
  const store = new MemoryStore()
  store.addKey(generateApiKey(), 'ada')
  expect(await ensure(store)).toBeUndefined()
  await writeFile(join(stateDir, 'api-key'), `${generateApiKey()}\n`)
  expect(await ensure(store)).toBeUndefined()
  expect(store.keys.size).toBe(1)
})

test('a revoked first key does not come back at a later start', async () => {
  const store = new MemoryStore()
  const file = (await ensure(store)) ?? ''
  const key = (await readFile(file, 'utf8')).trim()
  const { id = '' } = (await findApiKey(store, key)) ?? {}
  expect(await ensure(store)).toBe(file)
  await store.revokeApiKey(id, { at: now().toISOString(), by: 'ada' })

  expect(await ensure(store)).toBeUndefined()
  await ensureGivenApiKey(store, { apiKey: key, now })

  expect(store.keys.size).toBe(1)
  expect(await findApiKey(store, key)).toMatchObject({ revokedBy: 'ada' })
})

test('a file without a valid key is rejected with a remedy', async () => {
  await writeFile(join(stateDir, 'api-key'), 'hello')
  await expect(ensure(new MemoryStore())).rejects.toThrow('Remove the file')
})

test('the state folder is closed to other users', async () => {
  const path = join(stateDir, 'a', 'b')
  await preparePrivateFolder(path)
  expect(await modeOf(path)).toBe(0o700)
})

test('a symbolic link in place of the state folder is rejected', async () => {
  const path = join(stateDir, 'link')
  await symlink(tmpdir(), path)
  await expect(preparePrivateFolder(path)).rejects.toThrow('not a link')
})
