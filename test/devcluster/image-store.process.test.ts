import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { fillImageStore } from '../../devcluster/node/image-store.ts'

const DATABASE = 'io.containerd.metadata.v1.bolt/meta.db'
const SNAPSHOTS_DATABASE = 'io.containerd.snapshotter.v1.overlayfs/metadata.db'
const BLOB = 'io.containerd.content.v1.content/blobs/sha256/abc'
const FILE = 'io.containerd.snapshotter.v1.overlayfs/snapshots/1/fs/bin/sh'

describe('node images', () => {
  let cacheRoot: string
  let unpacked: string[]

  beforeEach(() => {
    cacheRoot = mkdtempSync(join(tmpdir(), 'image-store-'))
    unpacked = []
  })
  afterEach(() => rmSync(cacheRoot, { recursive: true, force: true }))

  /**
   * Fills the containerd root of a node. Unpacking writes the node's name, which shows the node that unpacked each
   * file.
   */
  async function fill(node: string, archives: readonly string[] = ['/cache/images/pause-1.tar']) {
    const root = join(cacheRoot, node)
    mkdirSync(root)
    const unpack = async () => {
      unpacked.push(node)
      for (const path of [DATABASE, SNAPSHOTS_DATABASE, BLOB, FILE]) {
        mkdirSync(dirname(join(root, path)), { recursive: true })
        writeFileSync(join(root, path), node, { mode: 0o755 })
      }
    }
    await fillImageStore({ cacheRoot, archives, containerd: '/cache/node-1/bin/containerd', root, unpack })
    return root
  }
  const read = (root: string, path: string) => readFileSync(join(root, path), 'utf8')

  it('are unpacked once and shared with hard links', async () => {
    const first = await fill('first')

    const second = await fill('second')

    expect(unpacked).toEqual(['first'])
    for (const path of [BLOB, FILE]) {
      expect(statSync(join(second, path)).ino).toBe(statSync(join(first, path)).ino)
    }
    expect(statSync(join(second, FILE)).mode & 0o777).toBe(0o755)
  })

  it('have a separate database for each node', async () => {
    const first = await fill('first')
    const second = await fill('second')

    for (const path of [DATABASE, SNAPSHOTS_DATABASE]) writeFileSync(join(second, path), 'changed')

    expect([DATABASE, SNAPSHOTS_DATABASE].map((path) => read(first, path))).toEqual(['first', 'first'])
    expect(read(await fill('third'), DATABASE)).toBe('first')
  })

  it('stay available to other nodes when one node removes them', async () => {
    const first = await fill('first')

    rmSync(first, { recursive: true })

    expect(read(await fill('second'), FILE)).toBe('first')
    expect(unpacked).toEqual(['first'])
  })

  it('are unpacked again when one of them changes', async () => {
    await fill('first')

    await fill('second', ['/cache/images/pause-2.tar'])

    expect(unpacked).toEqual(['first', 'second'])
  })

  it('are unpacked again when the stored copy is incomplete', async () => {
    await fill('first')
    const [kept = ''] = readdirSync(join(cacheRoot, 'unpacked'))
    rmSync(join(cacheRoot, 'unpacked', kept, DATABASE))

    const second = await fill('second')

    expect(unpacked).toEqual(['first', 'second'])
    expect(read(second, FILE)).toBe('second')
    expect(read(await fill('third'), FILE)).toBe('second')
  })

  it('are stored once when two nodes unpack them at the same time', async () => {
    const roots = await Promise.all([fill('first'), fill('second')])

    const third = await fill('third')

    expect(roots.every((root) => existsSync(join(root, FILE)))).toBe(true)
    expect(unpacked).toEqual(['first', 'second'])
    expect(['first', 'second']).toContain(read(third, FILE))
  })
})
