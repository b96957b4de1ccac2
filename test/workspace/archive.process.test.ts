import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { type PackOptions, packWorkspace } from '../../runtime/workspace/archive/pack.ts'
import { unpackWorkspace } from '../../runtime/workspace/archive/unpack.ts'
import { anArchive, ENOUGH } from './archive-fixture.ts'
import { aWorkspace, type WorkspaceFixture } from './workspace-fixture.ts'

const tooLarge = { code: 'too_large', message: expect.stringMatching(/^b:/) }

const packed = (from: WorkspaceFixture, options: Partial<PackOptions> = {}) =>
  packWorkspace(from.workspace, { limits: ENOUGH, onOmitted: () => undefined, ...options })

describe('a packed workspace', () => {
  it('unpacks to the same files, folders, links, modes and times', async () => {
    const from = await aWorkspace()
    const to = await aWorkspace()
    const long = `${'folder-with-a-long-name/'.repeat(8)}file`
    await from.perform({ op: 'write', path: long }, 'deep')
    await from.perform({ op: 'write', path: 'tool.sh', mode: 0o755 }, '#!/bin/sh\n')
    await from.perform({ op: 'write', path: 'umläut 10:30 \u{1f600}'.replace(':', '.') }, '')
    await from.workspace.perform({ op: 'write', path: 'large' }, { payload: Buffer.alloc(1_000_001, 'x') })
    writeFileSync(join(from.root, '10:30.log'), 'colon')
    mkdirSync(join(from.root, 'empty'), { mode: 0o700 })
    symlinkSync('../tool.sh', join(from.root, 'empty', 'link'))
    chmodSync(join(from.root, 'empty'), 0o555)
    utimesSync(join(from.root, 'tool.sh'), 1_000_000, 1_000_000)

    const archive = packed(from)
    const summary = await unpackWorkspace(to.workspace, archive.chunks, { limits: ENOUGH })

    expect(summary).toEqual({ entries: archive.summary.entries, bytes: archive.summary.bytes })
    expect(readFileSync(join(to.root, long), 'utf8')).toBe('deep')
    expect(readFileSync(join(to.root, '10:30.log'), 'utf8')).toBe('colon')
    expect(statSync(join(to.root, 'large')).size).toBe(1_000_001)
    expect(statSync(join(to.root, 'tool.sh')).mode & 0o777).toBe(0o755)
    expect(statSync(join(to.root, 'tool.sh')).mtimeMs).toBe(1_000_000_000)
    expect(statSync(join(to.root, 'empty')).mode & 0o777).toBe(0o555)
    expect(readlinkSync(join(to.root, 'empty', 'link'))).toBe('../tool.sh')
  })

  it('is readable by tar, and identical for the same tree', async () => {
    const from = await aWorkspace()
    await from.perform({ op: 'write', path: 'b/c' }, 'x')
    await from.perform({ op: 'write', path: 'a' }, 'y')

    const [first, second] = [await collect(packed(from).chunks), await collect(packed(from).chunks)]

    expect(first.equals(second)).toBe(true)
    expect(execFileSync('tar', ['-tf', '-'], { input: first, encoding: 'utf8' })).toBe('a\nb/\nb/c\n')
  })

  it('omits unsupported entries, and reports them by name', async () => {
    const from = await aWorkspace()
    symlinkSync('/etc/passwd', join(from.root, 'absolute'))
    symlinkSync('../outside/secret.txt', join(from.root, 'climbing'))
    symlinkSync('dangling', join(from.root, 'kept'))
    execFileSync('mkfifo', [join(from.root, 'fifo')])
    const omitted: string[] = []

    const archive = packed(from, { onOmitted: (path) => omitted.push(path) })
    const listing = execFileSync('tar', ['-tf', '-'], {
      input: await collect(archive.chunks),
      encoding: 'utf8',
    })

    expect(listing).toBe('kept\n')
    expect(omitted).toEqual(['absolute', 'climbing', 'fifo'])
  })

  it('fails with the name of the entry that exceeds the limits', async () => {
    const from = await aWorkspace()
    await from.perform({ op: 'write', path: 'a' }, 'x'.repeat(100))
    await from.perform({ op: 'write', path: 'b' }, 'x'.repeat(100))

    const archiveWithin = (limits: PackOptions['limits']) => collect(packed(from, { limits }).chunks)

    await expect(archiveWithin({ maxEntries: 9, maxBytes: 150 })).rejects.toMatchObject(tooLarge)
    await expect(archiveWithin({ maxEntries: 1, maxBytes: 999 })).rejects.toMatchObject(tooLarge)
  })

  it('fails with the name of an entry that cannot be opened', async () => {
    const from = await aWorkspace()
    execFileSync('sh', ['-c', 'printf x > "$(printf "bad\\377name")"'], { cwd: from.root })

    await expect(collect(packed(from).chunks)).rejects.toMatchObject({
      code: 'not_found',
      message: expect.stringMatching(/^bad.name/),
    })
  })

  it('stops when its reader stops', async () => {
    const from = await aWorkspace()
    for (let index = 0; index < 50; index++) {
      await from.workspace.perform({ op: 'write', path: `f${index}` }, { payload: Buffer.alloc(200_000) })
    }
    const archive = packed(from)

    for await (const _ of archive.chunks) break

    expect(archive.summary.entries).toBeLessThan(50)
  })
})

describe('unpacking', () => {
  it('reads archives created by tar, with hard links as copies', async () => {
    const { workspace, root, outside } = await aWorkspace()
    const source = join(outside, 'source')
    mkdirSync(join(source, 'd'), { recursive: true })
    writeFileSync(join(source, 'd', 'one'), 'shared')
    execFileSync('ln', ['d/one', 'two'], { cwd: source })
    const tar = execFileSync('tar', ['-cf', '-', '-C', source, '.'])

    await unpackWorkspace(workspace, chunksOf(tar, 1000), { limits: ENOUGH })

    expect(readFileSync(join(root, 'two'), 'utf8')).toBe('shared')
    expect(lstatSync(join(root, 'two')).nlink).toBe(1)
  })

  it('gives the same result for every chunking of the stream', async () => {
    const tar = await anArchive([
      { name: 'a', content: 'x'.repeat(3000) },
      { name: 'd/', type: 'directory' },
      { name: 'd/b', content: 'y' },
    ])
    for (const size of [1, 7, 511, 512, 513, 100_000]) {
      const { workspace, readText } = await aWorkspace()
      await unpackWorkspace(workspace, chunksOf(tar, size), { limits: ENOUGH })
      expect(await readText('a')).toBe('x'.repeat(3000))
      expect(await readText('d/b')).toBe('y')
    }
  })

  it('fails for a stream that is not an archive, or that is truncated', async () => {
    const { workspace } = await aWorkspace()
    const whole = await anArchive([{ name: 'a', content: 'x'.repeat(3000) }])

    for (const bytes of [Buffer.alloc(2048, 'z'), whole.subarray(0, 1500)]) {
      await expect(
        unpackWorkspace(workspace, chunksOf(bytes, 300), { limits: ENOUGH }),
      ).rejects.toMatchObject({
        code: 'io_error',
      })
    }
  })

  it('forwards errors of its source', async () => {
    const { workspace } = await aWorkspace()
    const broken = async function* () {
      yield new Uint8Array(0)
      throw new Error('the upload broke')
    }

    await expect(unpackWorkspace(workspace, broken(), { limits: ENOUGH })).rejects.toThrow(/the upload broke/)
  })
})

async function collect(chunks: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const parts: Uint8Array[] = []
  for await (const chunk of chunks) parts.push(chunk)
  return Buffer.concat(parts)
}

async function* chunksOf(bytes: Uint8Array, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
}
