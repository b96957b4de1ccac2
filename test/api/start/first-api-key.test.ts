import { mkdtemp, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { findApiKey, generateApiKey } from '../../../runtime/api/http/api-key.ts'
import { ensureFirstApiKey } from '../../../runtime/api/start/first-api-key.ts'
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

test('the first start makes an operator key that only its owner can read', async () => {
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

test('two processes that start at once agree on one file', async () => {
  const store = new MemoryStore()
  await Promise.all([ensure(store), ensure(store)])
  const key = (await readFile(join(stateDir, 'api-key'), 'utf8')).trim()
  expect(await findApiKey(store, key)).toBeDefined()
})

test('a crash between file and store is repaired by the next start', async () => {
  const key = generateApiKey()
  await writeFile(join(stateDir, 'api-key'), `${key}\n`, { mode: 0o644 })
  const store = new MemoryStore()
  const file = (await ensure(store)) ?? ''
  expect(await findApiKey(store, key)).toBeDefined()
  expect(await modeOf(file)).toBe(0o600)
})

test('a store with keys of its own takes no key from a file', async () => {
  const store = new MemoryStore()
  store.addKey(generateApiKey(), 'ada')
  expect(await ensure(store)).toBeUndefined()
  await writeFile(join(stateDir, 'api-key'), `${generateApiKey()}\n`)
  expect(await ensure(store)).toBeUndefined()
  expect(store.keys.size).toBe(1)
})

test('a file that holds no key is refused with what to do', async () => {
  await writeFile(join(stateDir, 'api-key'), 'hello')
  await expect(ensure(new MemoryStore())).rejects.toThrow('Remove the file')
})

test('the state folder is closed to others', async () => {
  const path = join(stateDir, 'a', 'b')
  await preparePrivateFolder(path)
  expect(await modeOf(path)).toBe(0o700)
})

test('a link in place of the state folder is refused', async () => {
  const path = join(stateDir, 'link')
  await symlink(tmpdir(), path)
  await expect(preparePrivateFolder(path)).rejects.toThrow('not a link')
})
