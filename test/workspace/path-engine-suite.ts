import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { FileOperationInput } from '../../contracts/files.ts'
import type { PathEngine } from '../../runtime/workspace/engines/path-engine.ts'
import { aWorkspace, SECRET } from './workspace-fixture.ts'

/** The guarantees of every path engine. */
export function testPathEngine(engine: PathEngine['name']): void {
  describe(`the path engine ${engine}`, () => {
    it('is the one that is reported', async () => {
      const { workspace } = await aWorkspace(engine)
      expect(workspace.engine.name).toBe(engine)
    })

    testReadingAndWriting(engine)
    testArranging(engine)
    testRefusals(engine)
  })
}

function testReadingAndWriting(engine: PathEngine['name']): void {
  it('reads back what it wrote, in folders that it created', async () => {
    const { perform, readText } = await aWorkspace(engine)

    const written = await perform({ op: 'write', path: 'a/b/c.txt' }, 'content')

    expect(written).toMatchObject({ ok: true, entry: { path: 'a/b/c.txt', type: 'file', size: 7 } })
    expect(await readText('a/b/c.txt')).toBe('content')
  })

  it('reads a part of a file', async () => {
    const { workspace, perform } = await aWorkspace(engine)
    await perform({ op: 'write', path: 'f' }, '0123456789')

    const { result, payload } = await workspace.perform({ op: 'read', path: 'f', offset: 3, length: 4 })

    expect(Buffer.from(payload).toString()).toBe('3456')
    expect(result).toMatchObject({ ok: true, entry: { size: 10 } })
    const beyond = await workspace.perform({ op: 'read', path: 'f', offset: 99 })
    expect(beyond.payload).toHaveLength(0)
  })

  it('transfers files of many sizes unchanged', async () => {
    const { workspace, readText } = await aWorkspace(engine)
    for (const size of [0, 1, 4096, 65_535, 65_536, 65_537, 3_000_001]) {
      const content = Buffer.alloc(size, `${size}.`)

      await workspace.perform({ op: 'write', path: 'f' }, { payload: content })

      expect(await readText('f')).toBe(content.toString())
    }
  })

  it('keeps the mode of a replaced file, and sets a requested mode', async () => {
    const { root, perform } = await aWorkspace(engine)
    writeFileSync(join(root, 'tool.sh'), 'old')
    chmodSync(join(root, 'tool.sh'), 0o750)

    await perform({ op: 'write', path: 'tool.sh' }, 'new')
    await perform({ op: 'write', path: 'key', mode: 0o600 }, 'x')

    expect(statSync(join(root, 'tool.sh')).mode & 0o777).toBe(0o750)
    expect(statSync(join(root, 'key')).mode & 0o777).toBe(0o600)
  })

  it('creates a file only if requested', async () => {
    const { codeOf, readText } = await aWorkspace(engine)

    expect(await codeOf({ op: 'write', path: 'n', create: 'never' }, 'x')).toBe('not_found')
    expect(await codeOf({ op: 'write', path: 'n', create: 'exclusive' }, 'first')).toBe('ok')
    expect(await codeOf({ op: 'write', path: 'n', create: 'exclusive' }, 'second')).toBe('exists')
    expect(await codeOf({ op: 'write', path: 'no/such/f', parents: false }, 'x')).toBe('not_found')
    expect(await readText('n')).toBe('first')
  })

  it('replaces a file atomically: an open reader keeps the old content', async () => {
    const { root, perform } = await aWorkspace(engine)
    await perform({ op: 'write', path: 'f' }, 'old')
    const before = statSync(join(root, 'f')).ino

    await perform({ op: 'write', path: 'f' }, 'new')

    expect(statSync(join(root, 'f')).ino).not.toBe(before)
    expect(readdirSync(root)).toEqual(['f'])
  })
}

function testArranging(engine: PathEngine['name']): void {
  it('lists a folder in sorted pages with the type of each entry', async () => {
    const { root, perform } = await aWorkspace(engine)
    for (const name of ['c', 'a', 'b']) writeFileSync(join(root, name), '')
    mkdirSync(join(root, 'd'))
    symlinkSync('a', join(root, 'e'))

    const first = await perform({ op: 'list', path: '.', limit: 3 })
    const second = await perform({ op: 'list', path: '.', limit: 3, after: first.ok ? first.next : 'none' })

    const shown = (result: typeof first) =>
      result.ok && result.entries?.map(({ path, type }) => `${path} ${type}`)
    expect(shown(first)).toEqual(['a file', 'b file', 'c file'])
    expect(shown(second)).toEqual(['d directory', 'e symlink'])
    expect(second).not.toHaveProperty('next')
  })

  it('creates, renames and deletes entries', async () => {
    const { root, codeOf } = await aWorkspace(engine)

    expect(await codeOf({ op: 'mkdir', path: 'a/b' })).toBe('ok')
    expect(await codeOf({ op: 'mkdir', path: 'a/b' })).toBe('ok')
    expect(await codeOf({ op: 'mkdir', path: 'a/b', parents: false })).toBe('exists')
    expect(await codeOf({ op: 'write', path: 'a/b/f' }, 'x')).toBe('ok')
    expect(await codeOf({ op: 'rename', from: 'a/b/f', to: 'a/g' })).toBe('ok')
    expect(await codeOf({ op: 'rename', from: 'a/g', to: 'a/b' })).toBe('exists')
    expect(await codeOf({ op: 'rename', from: 'a', to: 'a/b/inside' })).toBe('denied')
    expect(await codeOf({ op: 'delete', path: 'a' })).toBe('not_empty')
    expect(await codeOf({ op: 'delete', path: 'a', recursive: true })).toBe('ok')
    expect(readdirSync(root)).toEqual([])
  })

  it('deletes a large tree, and a link in it but not its target', async () => {
    const { root, outside, codeOf } = await aWorkspace(engine)
    for (let index = 0; index < 300; index++)
      mkdirSync(join(root, `t/${index % 7}/${index}`), { recursive: true })
    symlinkSync(outside, join(root, 't/out'))

    expect(await codeOf({ op: 'delete', path: 't', recursive: true })).toBe('ok')

    expect(existsSync(join(root, 't'))).toBe(false)
    expect(readFileSync(join(outside, 'secret.txt'), 'utf8')).toBe(SECRET)
  })

  it('reports a link as a link', async () => {
    const { root, perform } = await aWorkspace(engine)
    symlinkSync('/etc/passwd', join(root, 'link'))

    expect(await perform({ op: 'stat', path: 'link' })).toMatchObject({ entry: { type: 'symlink' } })
    expect(await perform({ op: 'stat', path: '.' })).toMatchObject({
      entry: { path: '.', type: 'directory' },
    })
  })
}

function testRefusals(engine: PathEngine['name']): void {
  it('denies every access through a link, and leaves the outside unchanged', async () => {
    const { root, outside, codeOf } = await aWorkspace(engine)
    symlinkSync(outside, join(root, 'folder'))
    symlinkSync(join(outside, 'secret.txt'), join(root, 'file'))
    symlinkSync('../outside', join(root, 'relative'))
    symlinkSync('/proc/self/root', join(root, 'magic'))
    mkdirSync(join(root, 'real'))
    symlinkSync('real', join(root, 'inner'))
    const attempts: FileOperationInput[] = [
      'folder/secret.txt',
      'file',
      'relative/secret.txt',
      'magic/etc/passwd',
      'inner/x',
    ].flatMap((path): FileOperationInput[] => [
      { op: 'read', path },
      { op: 'write', path },
      { op: 'write', path: `${path}/below` },
      { op: 'stat', path: `${path}/below` },
      { op: 'list', path },
      { op: 'mkdir', path: `${path}/below` },
      { op: 'delete', path: `${path}/below`, recursive: true },
      { op: 'rename', from: `${path}/below`, to: 'taken' },
    ])

    const codes = await Promise.all(attempts.map((operation) => codeOf(operation, 'evil')))

    expect([...new Set(codes)]).toEqual(['symlink'])
    expect(readdirSync(outside)).toEqual(['secret.txt'])
    expect(readFileSync(join(outside, 'secret.txt'), 'utf8')).toBe(SECRET)
    expect(readFileSync(join(root, 'folder/secret.txt'), 'utf8'), 'the links do lead there').toBe(SECRET)
  })

  it('denies special files without blocking', async () => {
    const { root, codeOf } = await aWorkspace(engine)
    execFileSync('mkfifo', [join(root, 'fifo')])
    const server = createServer().listen(join(root, 'socket'))
    onTestFinished(() => void server.close())
    await new Promise((resolve) => server.once('listening', resolve))

    for (const path of ['fifo', 'socket']) {
      expect(await codeOf({ op: 'read', path })).toBe('special_file')
      expect(await codeOf({ op: 'write', path }, 'x')).toBe('special_file')
    }
    expect(await codeOf({ op: 'read', path: '.' })).toBe('not_a_file')
    expect(lstatSync(join(root, 'fifo')).isFIFO()).toBe(true)
  })

  it('denies writing a file with several hard links, but reads it', async () => {
    const { root, outside, codeOf, readText } = await aWorkspace(engine)
    linkSync(join(outside, 'secret.txt'), join(root, 'hard'))

    expect(await codeOf({ op: 'write', path: 'hard' }, 'evil')).toBe('hard_link')

    expect(await readText('hard')).toBe(SECRET)
    expect(readFileSync(join(outside, 'secret.txt'), 'utf8')).toBe(SECRET)
  })

  it('denies changing the root itself', async () => {
    const { codeOf } = await aWorkspace(engine)
    const attempts: FileOperationInput[] = [
      { op: 'delete', path: '.', recursive: true },
      { op: 'write', path: './' },
      { op: 'rename', from: '.', to: 'x' },
      { op: 'rename', from: 'x', to: '.' },
    ]

    const codes = await Promise.all(attempts.map((operation) => codeOf(operation, 'x')))

    expect(codes.slice(0, 3)).toEqual(['denied', 'denied', 'denied'])
    expect(codes[3]).not.toBe('ok')
  })

  it('distinguishes a missing name from a name below a file', async () => {
    const { codeOf } = await aWorkspace(engine)
    await codeOf({ op: 'write', path: 'f' }, 'x')

    expect(await codeOf({ op: 'read', path: 'none' })).toBe('not_found')
    expect(await codeOf({ op: 'read', path: 'f/x' })).toBe('not_a_directory')
    expect(await codeOf({ op: 'list', path: 'f' })).toBe('not_a_directory')
    expect(await codeOf({ op: 'write', path: 'f/x' }, 'x')).toBe('not_a_directory')
  })

  it('denies more bytes than the limit of an operation', async () => {
    const { root, workspace, codeOf } = await aWorkspace(engine)
    execFileSync('truncate', ['-s', '16777217', join(root, 'large')])

    expect(await codeOf({ op: 'read', path: 'large' })).toBe('too_large')
    const payload = new Uint8Array(16_777_217)
    expect((await workspace.perform({ op: 'write', path: 'w' }, { payload })).result).toMatchObject({
      code: 'too_large',
    })
    expect(await codeOf({ op: 'read', path: 'large', offset: 16_777_000 })).toBe('ok')
  })
}
