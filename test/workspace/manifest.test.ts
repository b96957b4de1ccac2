import { createHash } from 'node:crypto'
import { chmodSync, mkdirSync, renameSync, statSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { describe, expect, it } from 'vitest'
import { ManifestEntry } from '../../contracts/workspace-manifest.ts'
import { ManifestTaker } from '../../runtime/workspace/snapshot/manifest-taker.ts'
import type { Tree } from '../../runtime/workspace/tree.ts'
import { aWorkspace } from './workspace-fixture.ts'

const HOUR_MS = 3_600_000
const LIMITS = { maxEntries: 1000, maxBytes: 1_000_000 }
const sha256 = (content: string) => createHash('sha256').update(content).digest('hex')

/** A workspace, a taker on a clock that is ahead by `aheadMs`, and the paths of the files that it opened. */
async function aTaker({ aheadMs = HOUR_MS } = {}) {
  const { workspace, root, outside } = await aWorkspace()
  const opened: string[] = []
  const { engine } = workspace
  const tree: Tree = {
    root: workspace.root,
    engine: {
      name: engine.name,
      open: (path, flags, mode) => {
        opened.push(path.text)
        return engine.open(path, flags, mode)
      },
    },
  }
  const taker = new ManifestTaker(tree, { nowMs: () => Date.now() + aheadMs })
  const omitted: string[] = []
  const take = async (limits = LIMITS) => {
    opened.length = 0
    const { chunks } = taker.take({ limits, onOmitted: (path) => omitted.push(path) })
    const lines = (await text(chunks)).split('\n').slice(0, -1)
    return lines.map((line) => ManifestEntry.parse(JSON.parse(line)))
  }
  const read = () => opened.filter((path) => path.includes('file'))
  return { root, outside, taker, take, read, omitted }
}

describe('a manifest', () => {
  it('lists files with their digests, folders before their contents, and links', async () => {
    const { root, take } = await aTaker()
    mkdirSync(join(root, 'a'))
    writeFileSync(join(root, 'a/file'), 'x')
    chmodSync(join(root, 'a/file'), 0o4750)
    utimesSync(join(root, 'a/file'), 5, 1_000_000_000.9)
    symlinkSync('a/file', join(root, 'link'))
    chmodSync(join(root, 'a'), 0o700)

    expect(await take()).toEqual([
      { kind: 'folder', path: 'a', mode: 0o700 },
      { kind: 'link', path: 'link', target: 'a/file' },
      { kind: 'file', path: 'a/file', mode: 0o750, mtime: 1_000_000_000, size: 1, sha256: sha256('x') },
    ])
  })

  it('reads only the files that changed since the last one', async () => {
    const { root, take, read } = await aTaker()
    writeFileSync(join(root, 'file1'), 'x')
    writeFileSync(join(root, 'file2'), 'y')
    const first = await take()
    expect(read()).toEqual(['file1', 'file2'])
    writeFileSync(join(root, 'file2'), 'z')

    const second = await take()

    expect(read()).toEqual(['file2'])
    expect(second[0]).toEqual(first[0])
    expect(second[1]).toMatchObject({ path: 'file2', sha256: sha256('z') })
  })

  it('sees a change that keeps the size and puts the old mtime back', async () => {
    const { root, take } = await aTaker()
    const file = join(root, 'file')
    writeFileSync(file, 'old')
    await take()
    const { atime, mtime, size } = statSync(file)
    writeFileSync(file, 'new')
    utimesSync(file, atime, mtime)
    expect(statSync(file)).toMatchObject({ size, mtimeMs: mtime.getTime() })

    expect(await take()).toMatchObject([{ path: 'file', sha256: sha256('new') }])
  })

  it('reads a file again that changed just before it was read', async () => {
    const { root, take, read } = await aTaker({ aheadMs: 0 })
    writeFileSync(join(root, 'file'), 'x')
    await take()

    await take()

    expect(read()).toEqual(['file'])
  })

  it('omits links that lead out of the workspace', async () => {
    const { root, outside, take, omitted } = await aTaker()
    symlinkSync(outside, join(root, 'out'))

    expect(await take()).toEqual([])
    expect(omitted).toEqual(['out'])
  })

  it.each([
    ['entries', { maxEntries: 1, maxBytes: 100 }],
    ['bytes', { maxEntries: 100, maxBytes: 3 }],
  ])('fails if the workspace has too many %s', async (_what, limits) => {
    const { root, take } = await aTaker()
    writeFileSync(join(root, 'file1'), 'xx')
    writeFileSync(join(root, 'file2'), 'yy')

    await expect(take(limits)).rejects.toMatchObject({ code: 'too_large' })
  })
})

describe('a pack', () => {
  it('has the contents in the order of the request', async () => {
    const { root, take, taker } = await aTaker()
    writeFileSync(join(root, 'file1'), 'first')
    writeFileSync(join(root, 'file2'), 'second')
    await take()

    const { chunks, summary } = taker.pack([sha256('second'), sha256('first')])

    expect(await text(chunks)).toBe('secondfirst')
    expect(summary).toEqual({ entries: 2, bytes: 11 })
  })

  it('fails for a digest that the last manifest does not have', async () => {
    const { root, take, taker } = await aTaker()
    writeFileSync(join(root, 'file'), 'x')
    await take()

    await expect(text(taker.pack([sha256('other')]).chunks)).rejects.toMatchObject({ code: 'not_found' })
  })

  it('reads no file outside the workspace that a link replaced since the manifest', async () => {
    const { root, outside, take, taker } = await aTaker()
    mkdirSync(join(root, 'a'))
    writeFileSync(join(root, 'a/secret.txt'), 'what lies inside.')
    await take()
    renameSync(join(root, 'a'), join(root, 'b'))
    symlinkSync(outside, join(root, 'a'))

    const pack = taker.pack([sha256('what lies inside.')])

    await expect(text(pack.chunks)).rejects.toMatchObject({ code: 'symlink' })
  })
})
