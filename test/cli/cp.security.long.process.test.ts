import { once } from 'node:events'
import { mkdir, readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import type { FileEntry, FileOperation } from '../../contracts/files.ts'
import { FILE_LIMITS } from '../../contracts/limits.ts'
import type { FileAnswer } from '../../contracts/toolbox.ts'
import { SandboxError } from '../../runtime/kit/errors.ts'
import { listen, startApp } from '../api/harness.ts'
import { until } from '../helpers/until.ts'
import { aFolder, runCli, startCli } from './run-cli.ts'

const NOTHING = new Uint8Array()
const entry = (path: string, more: Partial<FileEntry> = {}): FileEntry => ({
  path,
  type: 'file',
  size: 4,
  mtimeMs: 1,
  mode: 0o644,
  ...more,
})
const folder = (path: string) => entry(path, { type: 'directory', mode: 0o755 })
const entries = (...found: FileEntry[]): FileAnswer => ({
  result: { ok: true, entries: found },
  payload: NOTHING,
})

type Hostile = (operation: FileOperation) => FileAnswer | undefined | Promise<FileAnswer>

/** A service whose sandbox answers every file operation as it likes, and a folder to copy to. */
async function aHostileSandbox(hostile: Hostile) {
  const harness = startApp()
  const url = await listen(harness)
  const { app, keys, service } = harness
  const headers = { authorization: `Bearer ${keys.ada}` }
  const { id } = (await app.inject({ method: 'POST', url: '/api/sandboxes', headers, body: {} })).json()
  const ordinary = ({ op, ...operation }: FileOperation): FileAnswer => {
    if (op !== 'list') return { result: { ok: true }, payload: Buffer.from('evil') }
    return entries(...('path' in operation && operation.path === '.' ? [folder('x')] : []))
  }
  service.file = async (_caller, _id, { operation }) => (await hostile(operation)) ?? ordinary(operation)
  const place = await aFolder('aw-cp-hostile-')
  const cwd = join(place, 'here')
  await mkdir(cwd)
  const left = async () => (await readdir(place, { recursive: true })).sort()
  return { id, cwd, left, env: { AGENTWEAVER_URL: url, AGENTWEAVER_API_KEY: keys.ada } }
}

async function copyFrom(hostile: Hostile) {
  const { id, cwd, env, left } = await aHostileSandbox(hostile)
  const outcome = await runCli(['cp', `${id}:x`, '.', '--json'], { env, cwd })
  return { ...outcome, cwd, left: await left() }
}

const inX =
  (...found: FileEntry[]): Hostile =>
  (operation) =>
    operation.op === 'list' && operation.path === 'x' ? entries(...found) : undefined

describe('a sandbox with hostile responses', () => {
  test('can make an ordinary copy (control)', async () => {
    const { status, left } = await copyFrom(inX(entry('x/plain')))

    expect(status).toBe(0)
    expect(left).toEqual(['here', 'here/x', 'here/x/plain'])
  })

  test.each(['x/../../out', '../out', 'x/..', 'x/.', 'x/', 'x/a/b', '/etc/cron.d/x', 'y/out', 'x', 'x/a\0b'])(
    'cannot place a file outside the target by the name %j',
    async (name) => {
      const { status, stderr, left } = await copyFrom(inX(entry('x/plain'), entry(name)))

      expect(status).toBe(6)
      expect(stderr).toContain('a name outside the folder')
      expect(left).toEqual(['here'])
    },
  )

  test.each([
    '.git',
    '.GIT',
    'GIT~1',
    '.git ',
    '.g\u200cit',
    'HEAD',
    'head',
    'C:',
    'a\\..\\b',
    'n'.repeat(256),
  ])('cannot place a file named %j', async (name) => {
    const { status, stdout, left } = await copyFrom(inX(entry('x/plain'), entry(`x/${name}`)))

    expect(status).toBe(0)
    expect(JSON.parse(stdout).skipped).toEqual([{ path: `x/${name}`, reason: expect.any(String) }])
    expect(left).toEqual(['here', 'here/x', 'here/x/plain'])
  })

  test('cannot set more than the executable bit', async () => {
    const { cwd, status } = await copyFrom(inX(entry('x/tool', { mode: 0o7777 })))
    const { mode } = await stat(join(cwd, 'x/tool'))

    expect(status).toBe(0)
    expect(mode & 0o7000).toBe(0)
    expect(mode & 0o022).toBe(0)
  })

  test('cannot send a list without an end', async () => {
    const { status, stderr, left } = await copyFrom((operation) =>
      operation.op === 'list' && operation.path === 'x'
        ? { result: { ok: true, entries: [entry('x/a')], next: 'a' }, payload: NOTHING }
        : undefined,
    )

    expect(status).toBe(6)
    expect(stderr).toContain('a list without an end')
    expect(left).toEqual(['here'])
  })

  test('cannot send folders without an end', async () => {
    const { status, stderr, left } = await copyFrom((operation) =>
      operation.op === 'list' && operation.path !== '.' ? entries(folder(`${operation.path}/d`)) : undefined,
    )

    expect(status).toBe(2)
    expect(stderr).toContain('levels of folders')
    expect(left).toEqual(['here'])
  })

  test('cannot send more than it announced, or a file that changes between its parts', async () => {
    const size = 20_000_000
    const listing = inX(entry('x/big', { size }))
    const shorter = ({ offset = 0, length = 0 }: FileOperation & { op: 'read' }): FileAnswer => ({
      result: { ok: true },
      payload: new Uint8Array(offset === 0 ? length : length - 1),
    })
    const { status, stderr, left } = await copyFrom((operation) =>
      operation.op === 'read' ? shorter(operation) : listing(operation),
    )

    expect(status).toBe(6)
    expect(stderr).toContain('changed while it was copied')
    expect(left).toEqual(['here', 'here/x'])
  })

  test('cannot pass off the beginning of a file that has grown as the whole', async () => {
    const listing = inX(entry('x/grown'))
    const { status, stderr, left } = await copyFrom((operation) =>
      operation.op === 'read'
        ? { result: { ok: true }, payload: new Uint8Array(FILE_LIMITS.maxReadBytes) }
        : listing(operation),
    )

    expect(status).toBe(6)
    expect(stderr).toContain('changed while it was copied')
    expect(left).toEqual(['here', 'here/x'])
  })

  test('cannot fill the disk with announced gigabytes', async () => {
    const { status, stderr, left } = await copyFrom(inX(entry('x/huge', { size: 2 ** 40 })))

    expect(status).toBe(2)
    expect(stderr).toContain('too large to copy')
    expect(left).toEqual(['here'])
  })

  test('cannot write to the terminal', async () => {
    const { stdout, status } = await copyFrom(inX(entry('x/\u001b]0;owned\u0007', { type: 'symlink' })))

    expect(status).toBe(0)
    expect(stdout).not.toContain('\u001b')
    expect(JSON.parse(stdout).skipped).toHaveLength(1)
  })

  test('is reported as lost if it is lost in the middle, and leaves no part of a file', async () => {
    const listing = inX(entry('x/big', { size: 20_000_000 }))
    const { status, stderr, left } = await copyFrom((operation) => {
      if (operation.op !== 'read') return listing(operation)
      if (operation.offset) throw new SandboxError('sandbox_lost', 'the sandbox is gone')
      return { result: { ok: true }, payload: new Uint8Array(operation.length ?? 0) }
    })

    expect(status).toBe(1)
    expect(stderr).toContain('(sandbox_lost)')
    expect(left).toEqual(['here', 'here/x'])
  })

  test('leaves no part of a file when the copy is interrupted', async () => {
    const listing = inX(entry('x/big', { size: 20_000_000 }))
    const { id, cwd, env, left } = await aHostileSandbox((operation) => {
      if (operation.op !== 'read') return listing(operation)
      const { offset = 0, length = 0 } = operation
      return offset === 0
        ? { result: { ok: true }, payload: new Uint8Array(length) }
        : new Promise<never>(() => undefined)
    })
    const child = startCli(['cp', `${id}:x`, '.'], { env, cwd })
    const ended = once(child, 'exit')

    await until('a part was written', async () =>
      (await left()).some((name) => name.includes('.agentweaver-')),
    )
    child.kill('SIGINT')

    expect((await ended)[0]).toBe(130)
    expect(await left()).toEqual(['here', 'here/x'])
  })
})
