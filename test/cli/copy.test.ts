import { describe, expect, test } from 'vitest'
import { sizeWords } from '../../cli/copy/copied.ts'
import { COPY_LIMITS, requireFits } from '../../cli/copy/limits.ts'
import { localPlace, parseOperand } from '../../cli/copy/operand.ts'
import { createRemoteFiles } from '../../cli/copy/remote-files.ts'
import type { FileEntry } from '../../contracts/files.ts'
import { ProblemError } from '../../runtime/client/problem-error.ts'

const ID = `sbx_${'0'.repeat(32)}`

describe('an operand', () => {
  test.each([
    [`${ID}:dist/a`, { kind: 'remote', id: ID, path: 'dist/a' }],
    [`${ID}:./dist//a/`, { kind: 'remote', id: ID, path: 'dist/a' }],
    [`${ID}:`, { kind: 'remote', id: ID, path: '.' }],
    [`${ID}:a:b`, { kind: 'remote', id: ID, path: 'a:b' }],
    ['run_1:x', { kind: 'remote', id: 'run_1', path: 'x' }],
    [`./${ID}:a`, { kind: 'local', path: `./${ID}:a` }],
    ['run_folder/a:b', { kind: 'local', path: 'run_folder/a:b' }],
    ['C:\\a', { kind: 'local', path: 'C:\\a' }],
  ])('%s', (text, expected) => {
    expect(parseOperand(text)).toEqual(expected)
  })

  test.each([`${ID}:/etc/passwd`, `${ID}:..`, `${ID}:a/../../b`])('refuses %s', (text) => {
    expect(() => parseOperand(text)).toThrow(/relative to its workspace|must not contain/)
  })
})

test('a local path is split where links are no longer followed', () => {
  expect(localPlace('a/b', '/usr')).toMatchObject({ root: '/usr', names: 'a/b' })
  expect(localPlace('/usr/lib/x', '/usr')).toMatchObject({ root: '/usr', names: 'lib/x' })
  expect(localPlace('.', '/usr')).toMatchObject({ root: '/usr', names: '.' })
  expect(localPlace('/usr/x', '/tmp')).toMatchObject({ root: '/usr', names: 'x' })
  expect(() => localPlace('/x', '/tmp')).toThrow('below /')
  expect(() => localPlace('/', '/tmp')).toThrow('as a whole')
  expect(() => localPlace('/absent/x', '/tmp')).toThrow('there is no folder /absent')
})

test('a copy is limited in its entries, its bytes and its depth', () => {
  const most = { entries: COPY_LIMITS.entries, bytes: COPY_LIMITS.bytes, depth: COPY_LIMITS.depth }

  expect(() => requireFits(most)).not.toThrow()
  for (const name of ['entries', 'bytes', 'depth'] as const)
    expect(() => requireFits({ ...most, [name]: most[name] + 1 })).toThrow('too large to copy')
})

test.each([
  [0, '0 bytes'],
  [1023, '1023 bytes'],
  [1024, '1.0 KiB'],
  [16_777_216, '16.0 MiB'],
  [2 ** 41, '2048.0 GiB'],
])('%d bytes are shown as %s', (bytes, words) => {
  expect(sizeWords(bytes)).toBe(words)
})

describe('while the service limits the rate', () => {
  const limited = () =>
    Object.assign(
      new ProblemError({
        type: 'about:blank',
        title: '',
        status: 429,
        code: 'rate_limited',
        detail: 'slow down',
      }),
      { retryAfterMs: 0 },
    )
  const entry: FileEntry = { path: 'a', type: 'file', size: 1, mtimeMs: 1, mode: 0o644 }

  /** A client whose first calls are refused. */
  function aClient(refusals: number) {
    let calls = 0
    const listFiles = async () => {
      calls++
      if (calls <= refusals) throw limited()
      return { entries: [entry] }
    }
    const client = { listFiles, readFile: async () => new Uint8Array(), writeFile: async () => undefined }
    return { client, calls: () => calls }
  }

  test('a copy waits and goes on', async () => {
    const { client, calls } = aClient(3)
    const remote = createRemoteFiles(client, ID, new AbortController().signal)

    expect(await remote.find('a')).toMatchObject({ name: 'a' })
    expect(calls()).toBe(4)
  })

  test('a copy that is interrupted stops waiting', async () => {
    const stop = new AbortController()
    const { client } = aClient(Number.POSITIVE_INFINITY)
    const remote = createRemoteFiles(client, ID, stop.signal)

    const finding = remote.find('a')
    stop.abort(new Error('interrupted'))

    await expect(finding).rejects.toThrow('interrupted')
  })
})
