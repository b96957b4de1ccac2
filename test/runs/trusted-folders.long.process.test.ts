import { execFileSync } from 'node:child_process'
import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { Caller } from '../../runtime/api/runs/service.ts'
import { alice, aRun, bob, operator } from './service-rig.ts'
import {
  fileOf,
  git,
  ignored,
  noticesOf,
  STRICT,
  trusted,
  useTrust,
  WEAK,
  writeSettings,
} from './trust-rig.ts'

const { use, aRepository, startedIn, trust } = useTrust()

describe('the settings of one owner', () => {
  it('are separate for each owner, for every role', async () => {
    const { service } = use()
    const path = aRepository('shell_enabled: false\n')
    await startedIn(path, alice)
    writeSettings(path, WEAK)
    await trust(path, bob)
    await trust(path, operator)

    const again = await startedIn(path, alice)

    expect(again.settings?.shell_enabled).toBe(false)
    expect(noticesOf(again.events)).toEqual([ignored(path, 'changed')])
    await service.forgetFolder(operator, { path })
    expect((await service.compareSettings(alice, { path })).inForce?.text).toBe('shell_enabled: false\n')
    const paths = async (caller: Caller) =>
      (await service.listTrustedFolders(caller, { limit: 200 })).items.map((one) => one.path)
    expect(await paths(bob)).toEqual([path])
    expect(await paths(operator)).toEqual([])
    expect(await paths(alice)).toContain(path)
  })

  it('are kept for folders under the workspace roots alone', async () => {
    const { service, folder } = use()
    writeSettings(folder, WEAK)

    const isRefused = {
      code: 'workspace_invalid',
      message: expect.stringContaining('outside the folders that this service may work in'),
    }
    await expect(service.compareSettings(alice, { path: folder })).rejects.toMatchObject(isRefused)
    await expect(service.trustFolder(alice, { path: folder, digest: null })).rejects.toMatchObject(isRefused)
  })
})

describe('a folder is known by its real path', () => {
  const STRICTER = 'shell_enabled: false\n'
  const isStrict = async (path: string) => (await startedIn(path)).settings?.shell_enabled === false

  it('however it is spelled, and over a link above it', async () => {
    const path = aRepository(STRICTER)
    await startedIn(path)
    writeSettings(path, WEAK)
    const link = `${dirname(path)}-link`
    symlinkSync(dirname(path), link)

    for (const spelling of [
      `${path}/`,
      `${path}/../${path.split('/').at(-1)}`,
      path.replace(dirname(path), link),
    ])
      expect(await isStrict(spelling), spelling).toBe(true)
    rmSync(link)
  })

  it('so a folder recreated at the same path keeps its settings', async () => {
    const path = aRepository(STRICTER)
    await startedIn(path)
    rmSync(path, { recursive: true })
    mkdirSync(path)

    const { settings, events } = await startedIn(path)

    expect(settings?.shell_enabled).toBe(false)
    expect(noticesOf(events)).toEqual([ignored(path, 'removed')])
  })

  it('so one that was renamed is another one, whose first run says so', async () => {
    const path = aRepository(STRICTER)
    await startedIn(path)
    const renamed = `${path}-renamed`
    renameSync(path, renamed)

    expect(noticesOf((await startedIn(renamed)).events)).toEqual([trusted(renamed, 'file')])
    await use().service.forgetFolder(alice, { path })
  })

  it('so a folder inside it and a work tree of it are others', async () => {
    const path = aRepository(STRICTER)
    await startedIn(path)
    const inside = join(path, 'packages')
    mkdirSync(inside)
    const workTree = `${path}-tree`
    git(path, 'worktree', 'add', '-q', workTree)

    expect(noticesOf((await startedIn(inside)).events)).toEqual([trusted(inside, 'defaults')])
    expect(noticesOf((await startedIn(workTree)).events)).toEqual([trusted(workTree, 'file')])
  })

  it('with its letter case', async () => {
    const path = aRepository(STRICTER)
    await startedIn(path)
    const upper = path.replace(/project-\d+$/, (name) => name.toUpperCase())
    mkdirSync(upper)

    expect(noticesOf((await startedIn(upper)).events)).toEqual([trusted(upper, 'defaults')])
  })
})

describe('a settings file that cannot be read', () => {
  it.each([
    [
      'is malformed',
      (file: string) => writeFileSync(file, 'redact_pii: true\nshel_enabled: no\n'),
      /settings\.yml, line 2: shel_enabled: is not a known key/,
    ],
    ['is a link', (file: string) => symlinkSync('/etc/hostname', file), /settings\.yml is a symbolic link/],
    [
      'is a FIFO',
      (file: string) => execFileSync('mkfifo', [file]),
      /settings\.yml is neither a file nor a directory/,
    ],
  ])('rejects the first run and each later run if it %s', async (_what, make, message) => {
    const { service, store } = use()
    const fresh = aRepository()
    const known = aRepository(STRICT)
    await startedIn(known)
    rmSync(fileOf(known))
    for (const path of [fresh, known]) make(fileOf(path))

    for (const path of [fresh, known]) {
      const refusal = { code: 'workspace_invalid', message: expect.stringMatching(message) }
      await expect(service.startRun(alice, aRun(path, []))).rejects.toMatchObject(refusal)
      await expect(service.compareSettings(alice, { path })).rejects.toMatchObject(refusal)
      await expect(service.trustFolder(alice, { path, digest: null })).rejects.toMatchObject(refusal)
    }
    expect(await store.readTrustedFolder('alice', fresh)).toBeUndefined()
    expect((await store.readTrustedFolder('alice', known))?.settings).toBe(STRICT)
  })
})
