import { createHash } from 'node:crypto'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { extract } from 'tar-stream'
import { describe, expect, it, onTestFinished } from 'vitest'
import { MANIFEST_ROOMS, ManifestRoom } from '../../runtime/api/runs/checkpoints/manifest-room.ts'
import { openStoredWorkspace } from '../../runtime/api/runs/checkpoints/open-workspace.ts'
import { type SavedWorkspace, saveWorkspace } from '../../runtime/api/runs/checkpoints/save-workspace.ts'
import { SandboxError } from '../../runtime/kit/errors.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { openStore } from '../../runtime/store/open-store.ts'
import { givenRun } from '../store/rows.ts'

const ARCHIVE = 'the whole workspace'
const sha256 = (content: string) => createHash('sha256').update(content).digest('hex')
const signal = new AbortController().signal
const anOpening = () => ({ room: new ManifestRoom(), signal, waitMs: 60_000 })

type Files = Record<string, string>
type Lie = {
  /** The manifest that the sandbox sends, in place of the true one. */
  readonly manifest?: string
  /** The content that it sends for a file. */
  readonly content?: (content: string) => string
  /** Bytes after the contents. */
  readonly more?: string
  readonly fault?: SandboxError
}

async function* pieces(...parts: readonly string[]): AsyncGenerator<Uint8Array> {
  for (const part of parts) yield Buffer.from(part)
}

const entryOf = ([path, content]: [string, string]) => ({
  kind: 'file',
  path,
  mode: 0o644,
  mtime: 0,
  size: content.length,
  sha256: sha256(content),
})
const manifestOf = (files: Files) =>
  Object.entries(files)
    .map((file) => `${JSON.stringify(entryOf(file))}\n`)
    .join('')

/** A run of `ada` over a store, and a sandbox whose responses the test decides. */
async function aRig() {
  const folder = mkdtempSync(join(tmpdir(), 'aw-checkpoint-'))
  const file = join(folder, 'store.db')
  const store = await openStore({ kind: 'sqlite', file }, { log: silentLog })
  onTestFinished(async () => {
    await store.close()
    rmSync(folder, { recursive: true, force: true })
  })
  const stored = () =>
    readdirSync(`${file}-blobs`, { withFileTypes: true, recursive: true }).filter((entry) => entry.isFile())
  let commits = 0

  async function aRun() {
    const id = await givenRun(store)
    const run = { id, owner: 'ada' }
    const requests: string[][] = []
    const save = async (files: Files, lie: Lie = {}) => {
      requests.length = 0
      const byDigest = new Map(Object.values(files).map((content) => [sha256(content), content]))
      const client = {
        getManifest: async () => {
          if (lie.fault) throw lie.fault
          return pieces(lie.manifest ?? manifestOf(files))
        },
        getPack: async (contents: readonly string[]) => {
          requests.push([...contents])
          const sent = contents.map((digest) => (lie.content ?? String)(byDigest.get(digest) ?? ''))
          return pieces(...sent, lie.more ?? '')
        },
        getWorkspace: async () => pieces(ARCHIVE),
      }
      return saveWorkspace({ store, run, client, signal })
    }
    const commit = async ({ contents, ...workspace }: SavedWorkspace) => {
      commits += 1
      const checkpoint = { owner: 'ada', generation: 1, hostSequence: commits, policyVersion: 'p' }
      const at = '2026-01-01T00:00:00.000Z'
      await store.transaction((tx) => tx.commitCheckpoint(id, { ...checkpoint, at, workspace, contents }))
    }
    return { id, requests, save, commit, saveAndCommit: async (files: Files) => commit(await save(files)) }
  }

  const restored = async (id: string): Promise<Files> => {
    const checkpoint = await store.readCheckpoint(id)
    const chunks = await openStoredWorkspace(store, checkpoint!, anOpening())
    const archive = extract()
    const files: Files = {}
    const reading = (async () => {
      for await (const entry of archive) files[entry.header.name] = await text(entry)
    })()
    await Promise.all([pipeline(chunks!, archive), reading])
    return files
  }
  return { store, stored, aRun, restored }
}

const ofLength = (length: number, name: string) =>
  name.repeat(Math.ceil(length / name.length)).slice(0, length)
const manyFiles = (count: number) =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [`f${index}`, `content ${index}`]))

describe('the workspace part of a checkpoint', () => {
  it('stores nothing and asks for nothing if nothing changed', async () => {
    const { aRun, stored } = await aRig()
    const { requests, save, saveAndCommit } = await aRun()
    const files = { a: 'one', empty: '', large: ofLength(2_000_000, 'x') }
    await saveAndCommit(files)
    const before = stored().length

    const saved = await save(files)

    expect(requests).toEqual([])
    expect(stored()).toHaveLength(before)
    expect(saved.contents).toHaveLength(before)
  })

  it('asks only for the contents that changed, and restores all of them', async () => {
    const { aRun, restored } = await aRig()
    const { id, requests, saveAndCommit } = await aRun()
    await saveAndCommit({ a: 'one', b: 'two', c: 'three' })
    const changed = { a: 'one', b: 'other', d: 'three', e: '' }

    await saveAndCommit(changed)

    expect(requests).toEqual([[sha256('other')]])
    expect(await restored(id)).toEqual(changed)
  })

  it('stores 10,000 small files in a few contents', async () => {
    const { aRun, stored, restored } = await aRig()
    const { id, saveAndCommit } = await aRun()
    const files = manyFiles(10_000)

    await saveAndCommit(files)

    expect(stored().length).toBeLessThan(5)
    expect(await restored(id)).toEqual(files)
  })

  it('packs contents again that are spread over many packs', async () => {
    const { aRun, restored } = await aRig()
    const { id, save, commit, requests } = await aRun()
    const files: Files = {}
    let most = 0
    for (let index = 0; index < 40; index += 1) {
      files[`f${index}`] = `content ${index}`
      const saved = await save(files)
      most = Math.max(most, saved.contents.length)
      await commit(saved)
      if (requests[0] && requests[0].length > 1) break
    }

    expect(requests[0]?.length).toBeGreaterThan(10)
    expect(most).toBeLessThan(20)
    expect(await restored(id)).toEqual(files)
  })

  it('gets a file from the sandbox although another run of the owner has stored its content', async () => {
    const { aRun, restored } = await aRig()
    const [victim, thief] = [await aRun(), await aRun()]
    await victim.saveAndCommit({ secret: 'the key of another run' })
    await thief.saveAndCommit({ a: 'x' })
    const claimed = { a: 'x', stolen: 'the key of another run' }

    const saved = await thief.save({ a: 'x' }, { manifest: manifestOf(claimed) })

    expect(thief.requests).toHaveLength(3)
    expect(saved.kind).toBe('archive')
    // Control: a sandbox that has the content can store it.
    await thief.saveAndCommit(claimed)
    expect(await restored(thief.id)).toEqual(claimed)
  })

  it.each<[string, Lie]>([
    ['another content of the same size', { content: (content) => content.toUpperCase() }],
    ['a content that is too short', { content: (content) => content.slice(1) }],
    ['a content that is too long', { content: (content) => `${content}!` }],
    ['more after the contents', { more: 'more' }],
    ['a path that leads out', { manifest: manifestOf({ '../x': 'one' }) }],
    ['a manifest that is no manifest', { manifest: 'hello\n' }],
    ['no manifest, since it has no such route', { fault: new SandboxError('not_found', 'no such route') }],
  ])('is stored as one archive if the sandbox sends %s', async (_what, lie) => {
    const { aRun, store } = await aRig()
    const { id, save, commit } = await aRun()

    const saved = await save({ a: 'one', b: 'two' }, lie)
    await commit(saved)

    expect(saved).toEqual({ kind: 'archive', sha256: sha256(ARCHIVE), contents: [sha256(ARCHIVE)] })
    const opened = await openStoredWorkspace(store, (await store.readCheckpoint(id))!, anOpening())
    expect(await text(opened!)).toBe(ARCHIVE)
  })

  it('is stored as one archive if its manifest is large and another large one is handled', async () => {
    const { aRun } = await aRig()
    const { save } = await aRun()
    const files = Object.fromEntries(Array.from({ length: 3_000 }, (_, index) => [`f${index}`, 'x']))
    const leave = await MANIFEST_ROOMS.saving.enter('eve', signal)
    onTestFinished(leave)

    const small = await save({ a: 'one' })
    const large = await save(files)
    leave()
    const later = await save(files)

    expect([small.kind, large.kind, later.kind]).toEqual(['manifest', 'archive', 'manifest'])
  })

  it('has one room for all large workspaces that are read, until each is read or left', async () => {
    const { store, aRun } = await aRig()
    const { id, saveAndCommit } = await aRun()
    await saveAndCommit(Object.fromEntries(Array.from({ length: 3_000 }, (_, index) => [`f${index}`, 'x'])))
    const checkpoint = (await store.readCheckpoint(id))!
    const room = new ManifestRoom()
    const stop = new AbortController()
    const open = (change = {}) =>
      openStoredWorkspace(store, checkpoint, { room, signal, waitMs: 60_000, ...change })

    await open({ signal: stop.signal })
    await expect(open({ waitMs: 0 })).rejects.toMatchObject({ code: 'too_many_streams' })
    // The first reader never begins.
    stop.abort()
    const left = (await open({ waitMs: 0 }))![Symbol.asyncIterator]()
    await left.next()
    await left.return?.()
    const whole = await open({ waitMs: 0 })
    await text(whole!)

    await open({ waitMs: 0 })
  })

  it.each([
    ['a pack', { a: 'one', b: 'two' }],
    ['a large file', { a: ofLength(17_000_000, 'x') }],
  ])('is not restored if the stored content of %s was changed', async (_what, files) => {
    const { aRun, stored, restored } = await aRig()
    const { id, save, commit } = await aRun()
    await commit(await save(files))
    expect(await restored(id)).toEqual(files)
    const pack = stored().find(({ parentPath, name }) => isPlain(join(parentPath, name)))

    writeFileSync(join(pack!.parentPath, pack!.name), 'y', { flag: 'r+' })

    await expect(restored(id)).rejects.toThrow(/digest/)
  })
})

/** Manifests are compressed. */
function isPlain(path: string): boolean {
  return /^(?:on|xx)/.test(readFileSync(path, 'latin1').slice(0, 2))
}
