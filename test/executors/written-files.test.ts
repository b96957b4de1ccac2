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

it('are counted in every folder, with their space on the disk', async () => {
  const path = await folder()
  await mkdir(join(path, 'a', 'b'), { recursive: true })
  await writeFile(join(path, 'a', 'b', 'file\n'), Buffer.alloc(64 * KIB, 1))

  const { files, bytes, isComplete } = await count(path)

  expect({ files, isComplete }).toEqual({ files: 3, isComplete: true })
  expect(bytes).toBeGreaterThanOrEqual(64 * KIB)
})

it('are counted also if a name is no text', async () => {
  const path = await folder()
  const odd = Buffer.concat([Buffer.from(`${path}/`), Buffer.from([0xff])])
  await mkdir(odd)
  for (const name of ['/a', '/b']) await writeFile(Buffer.concat([odd, Buffer.from(name)]), 'a')
  for (const name of ['c', 'd']) await writeFile(join(path, name), 'a')

  expect(await count(path)).toMatchObject({ files: 5, isComplete: true })
})

it('are not all known if the search ends early', async () => {
  const path = await folder()
  await writeFile(join(path, 'file'), 'a')

  expect((await count(path, { signal: AbortSignal.abort() })).isComplete).toBe(false)
})

it('are those that changed since a time', async () => {
  const path = await folder()
  await writeFile(join(path, 'old'), 'a')
  const { ctimeMs } = await stat(join(path, 'old'))

  expect((await count(path, { since: ctimeMs + 0.001 })).files).toBe(0)
  expect((await count(path, { since: ctimeMs })).files).toBe(1)
})

it('with two names are counted once, and links are not followed', async () => {
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

it('of another file system are not counted', async () => {
  const path = await folder()
  await writeFile(join(path, 'file'), 'a')

  expect((await count(path, { device: -1 })).files).toBe(0)
})

it('are counted until a limit is reached, or the search is over', async () => {
  const path = await folder()
  for (let index = 0; index < 20; index++) await writeFile(join(path, `file-${index}`), 'a')

  expect((await count(path, { limits: { bytes: 1e9, files: 7 } })).files).toBe(7)
  expect((await count(path, { signal: AbortSignal.abort() })).files).toBe(0)
})

it('are not all known if something cannot be read as a folder', async () => {
  const path = await folder()
  await writeFile(join(path, 'file'), 'a')

  expect((await count(path, { folders: [join(path, 'file')] })).isComplete).toBe(false)
})

it('are all known if a folder is gone', async () => {
  const path = await folder()

  expect(await count(path, { folders: [path, join(path, 'gone')] })).toMatchObject({ isComplete: true })
})
