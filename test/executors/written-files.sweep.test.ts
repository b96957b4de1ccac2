import { renameSync, rmSync } from 'node:fs'
import { link, mkdir, mkdtemp, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { type Search, writtenFiles } from '../../runtime/executors/process/written-files.ts'

const KIB = 1024

async function folder(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'aw-written-'))
  onTestFinished(() => rm(path, { recursive: true, force: true }))
  return path
}

async function count(path: string, over: Partial<Search> = {}) {
  const { dev: device } = await stat(path)
  const limits = { bytes: Number.POSITIVE_INFINITY, files: Number.POSITIVE_INFINITY }
  const { signal } = new AbortController()
  return writtenFiles({ folders: [path], device, since: 0, limits, signal, ...over })
}

it('counts the files of every folder, and their space on the disk', async () => {
  const path = await folder()
  await mkdir(join(path, 'a', 'b'), { recursive: true })
  await writeFile(join(path, 'a', 'b', 'file\n'), Buffer.alloc(64 * KIB, 1))

  const { files, bytes, isComplete } = await count(path)

  expect({ files, isComplete }).toEqual({ files: 3, isComplete: true })
  expect(bytes).toBeGreaterThanOrEqual(64 * KIB)
})

it('counts files whose names are not valid text', async () => {
  const path = await folder()
  const odd = Buffer.concat([Buffer.from(`${path}/`), Buffer.from([0xff])])
  await mkdir(odd)
  for (const name of ['/a', '/b']) await writeFile(Buffer.concat([odd, Buffer.from(name)]), 'a')
  for (const name of ['c', 'd']) await writeFile(join(path, name), 'a')

  expect(await count(path)).toMatchObject({ files: 5, isComplete: true })
})

it('reports an incomplete count if the search ends early', async () => {
  const path = await folder()
  await writeFile(join(path, 'file'), 'a')

  expect((await count(path, { signal: AbortSignal.abort() })).isComplete).toBe(false)
})

it('counts only files that changed since the given time', async () => {
  const path = await folder()
  await writeFile(join(path, 'old'), 'a')
  const { ctimeMs } = await stat(join(path, 'old'))

  expect((await count(path, { since: ctimeMs + 0.001 })).files).toBe(0)
  expect((await count(path, { since: ctimeMs })).files).toBe(1)
})

it('counts a file with two names once, and follows no link', async () => {
  const [path, outside] = [await folder(), await folder()]
  await writeFile(join(path, 'file'), Buffer.alloc(64 * KIB, 1))
  await link(join(path, 'file'), join(path, 'again'))
  await writeFile(join(outside, 'other'), Buffer.alloc(1024 * KIB, 1))
  await symlink(outside, join(path, 'folder'))
  await symlink(join(outside, 'other'), join(path, 'link'))

  const { files, bytes } = await count(path)

  expect(files).toBe(3)
  expect(bytes).toBeLessThan(256 * KIB)
})

it('does not count files of another file system', async () => {
  const path = await folder()
  await writeFile(join(path, 'file'), 'a')

  expect((await count(path, { device: -1 })).files).toBe(0)
})

it('stops at a limit, and when the search is aborted', async () => {
  const path = await folder()
  for (let index = 0; index < 20; index++) await writeFile(join(path, `file-${index}`), 'a')

  expect((await count(path, { limits: { bytes: 1e9, files: 7 } })).files).toBe(7)
  expect((await count(path, { signal: AbortSignal.abort() })).files).toBe(0)
})

it('reports an incomplete count if a folder cannot be read', async () => {
  const path = await folder()
  await writeFile(join(path, 'file'), 'a')

  expect((await count(path, { folders: [join(path, 'file')] })).isComplete).toBe(false)
})

it('reports a complete count if a folder does not exist', async () => {
  const path = await folder()

  expect(await count(path, { folders: [path, join(path, 'gone')] })).toMatchObject({ isComplete: true })
})

/** Limits that are never reached. Calls `onRead` with the number of the entry before the search inspects it. */
function limitsThat(onRead: (entry: number) => void): Search['limits'] {
  let entries = 0
  return {
    get bytes() {
      onRead(++entries)
      return Number.POSITIVE_INFINITY
    },
    files: Number.POSITIVE_INFINITY,
  }
}

it('reports an incomplete count if a folder is renamed each time before the search opens it', async () => {
  const path = await folder()
  const [one, other] = [join(path, 'one'), join(path, 'other')]
  await mkdir(one)
  await writeFile(join(one, 'file'), Buffer.alloc(64 * KIB, 1))
  const limits = limitsThat((entry) => (entry % 2 ? renameSync(one, other) : renameSync(other, one)))

  expect(await count(path, { limits })).toMatchObject({ isComplete: false, onlyVanished: true })
})

it('counts the files of a folder that is renamed while the search is in it', async () => {
  const path = await folder()
  await mkdir(join(path, 'one', 'deep'), { recursive: true })
  await writeFile(join(path, 'one', 'deep', 'file'), Buffer.alloc(64 * KIB, 1))
  const limits = limitsThat((entry) => entry === 2 && renameSync(join(path, 'one'), join(path, 'other')))

  const { files, bytes, isComplete } = await count(path, { limits })

  expect({ files, isComplete }).toEqual({ files: 3, isComplete: true })
  expect(bytes).toBeGreaterThanOrEqual(64 * KIB)
})

it('reports a complete count if a folder is deleted during the search', async () => {
  const path = await folder()
  await mkdir(join(path, 'one', 'deep'), { recursive: true })
  await writeFile(join(path, 'file'), 'a')
  let isDeleted = false
  const limits = limitsThat(() => {
    if (!isDeleted) rmSync(join(path, 'one'), { recursive: true })
    isDeleted = true
  })

  expect(await count(path, { limits })).toMatchObject({ files: 1, isComplete: true })
})

it('reports an incomplete count if folders are nested too deeply', async () => {
  const path = await folder()
  await mkdir(join(path, ...Array<string>(250).fill('d')), { recursive: true })

  expect(await count(path)).toMatchObject({ isComplete: false, onlyVanished: false })
})
