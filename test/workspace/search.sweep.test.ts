import { mkdirSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import type { FileResult } from '../../contracts/files.ts'
import { SearchBudget } from '../../runtime/workspace/search/search-budget.ts'
import { processorMsUntil } from '../helpers/processor-time.ts'
import { aWorkspace } from './workspace-fixture.ts'

/** A workspace with these files. */
async function aTree(files: Readonly<Record<string, string | Uint8Array>>) {
  const fixture = await aWorkspace()
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(join(fixture.root, path, '..'), { recursive: true })
    writeFileSync(join(fixture.root, path), content)
  }
  return fixture
}

const found = (result: FileResult) =>
  result.ok ? result.matches?.map(({ path, line, text }) => `${path}:${line}: ${text}`) : result.code

describe('grep', () => {
  it('returns matching lines with path and number', async () => {
    const { perform } = await aTree({
      'b.txt': 'one\nneedle 1\r\nthree',
      'a/c.txt': 'needle 2\n',
      'd.txt': 'none',
    })

    const result = await perform({ op: 'grep', pattern: 'needle' })

    expect(found(result)).toEqual(['b.txt:2: needle 1\r', 'a/c.txt:1: needle 2'])
    expect(result).toMatchObject({ truncated: false })
  })

  it('treats the pattern as plain text unless is_regex is set', async () => {
    const { perform } = await aTree({ f: 'a.c\nabc\n' })

    expect(found(await perform({ op: 'grep', pattern: 'a.c' }))).toEqual(['f:1: a.c'])
    expect(found(await perform({ op: 'grep', pattern: '^a.c$', isRegex: true }))).toEqual([
      'f:1: a.c',
      'f:2: abc',
    ])
  })

  it('searches only files that match the glob', async () => {
    const { perform } = await aTree({ 'a.ts': 'x', 'b.js': 'x', 'deep/c.ts': 'x' })

    expect(found(await perform({ op: 'grep', pattern: 'x', include: '*.ts' }))).toEqual([
      'a.ts:1: x',
      'deep/c.ts:1: x',
    ])
  })

  it('skips installed packages, version control, build output, binaries and links', async () => {
    const hidden = ['node_modules/p/i.js', '.git/config', 'bin/x', 'obj/x', 'sub/.vs/x']
    const { perform, root } = await aTree({
      ...Object.fromEntries(hidden.map((path) => [path, 'needle'])),
      'binary.bin': Buffer.from('\0needle'),
      'kept/.hidden': 'needle',
    })
    symlinkSync('kept', join(root, 'link'))
    symlinkSync('../outside', join(root, 'out'))
    symlinkSync('kept/.hidden', join(root, 'alias'))

    expect(found(await perform({ op: 'grep', pattern: 'needle' }))).toEqual(['kept/.hidden:1: needle'])
    expect(found(await perform({ op: 'grep', pattern: 'what lies outside' }))).toEqual([])
  })

  it('stops at the limit and reports it', async () => {
    const { perform } = await aTree({ f: 'x\n'.repeat(100), g: 'x\n' })

    const result = await perform({ op: 'grep', pattern: 'x', maxResults: 10 })

    expect(result).toMatchObject({ ok: true, truncated: true })
    expect(result.ok && result.matches).toHaveLength(10)
  })

  it('reports that a file was too large to search', async () => {
    const { perform, root } = await aTree({ large: 'needle', small: 'needle' })
    truncateSync(join(root, 'large'), 5_000_000)

    const result = await perform({ op: 'grep', pattern: 'needle' })

    expect(found(result)).toEqual(['small:1: needle'])
    expect(result).toMatchObject({ truncated: true })
  })

  it('rejects a malformed expression with the reason', async () => {
    const { perform } = await aTree({ f: 'x' })

    const result = await perform({ op: 'grep', pattern: '(x', isRegex: true })

    expect(result).toMatchObject({ ok: false, code: 'invalid_pattern' })
  })

  it('matches in linear time where a backtracking engine would not end', async () => {
    const { perform } = await aTree({ f: `${'a'.repeat(40)}!\n` })

    const ms = await processorMsUntil(async () => {
      const result = await perform({ op: 'grep', pattern: '^(a+)+$', isRegex: true })
      expect(found(result)).toEqual([])
    })

    expect(ms).toBeLessThan(3000)
  })

  it('truncates long lines', async () => {
    const { perform } = await aTree({ f: `needle${'x'.repeat(10_000)}` })

    const result = await perform({ op: 'grep', pattern: 'needle' })

    expect(result.ok && result.matches?.[0]?.text).toHaveLength(500)
  })
})

describe('find', () => {
  it('returns matching files, in any folder if the glob has no slash', async () => {
    const { perform } = await aTree({
      'a.ts': '',
      'x/b.ts': '',
      'x/y/c.ts': '',
      'd.js': '',
      'node_modules/e.ts': '',
    })

    expect(await perform({ op: 'find', pattern: '*.ts' })).toMatchObject({
      paths: ['a.ts', 'x/b.ts', 'x/y/c.ts'],
    })
    expect(await perform({ op: 'find', pattern: 'x/*.ts' })).toMatchObject({ paths: ['x/b.ts'] })
  })

  it('stops at the limit and reports it', async () => {
    const { perform } = await aTree(
      Object.fromEntries(Array.from({ length: 30 }, (_, index) => [`f${index}`, ''])),
    )

    const result = await perform({ op: 'find', pattern: '*', maxResults: 5 })

    expect(result).toMatchObject({ truncated: true })
    expect(result.ok && result.paths).toHaveLength(5)
  })

  it('keeps its result small enough to send, however long the names are', async () => {
    const folder = Array.from({ length: 15 }, () => 'n'.repeat(240)).join('/')
    const { perform } = await aTree(
      Object.fromEntries(Array.from({ length: 400 }, (_, index) => [`${folder}/${index}`, ''])),
    )

    const result = await perform({ op: 'find', pattern: '*', maxResults: 1000 })

    expect(result).toMatchObject({ ok: true, truncated: true })
    expect(JSON.stringify(result).length).toBeLessThan(1_048_576)
  })
})

describe('the search budget', () => {
  it('yields to other work after each slice', async () => {
    vi.useFakeTimers({ toFake: ['performance'] })
    onTestFinished(() => void vi.useRealTimers())
    const budget = new SearchBudget(undefined)
    let didOthersRun = false
    setImmediate(() => {
      didOthersRun = true
    })
    vi.advanceTimersByTime(20)

    await budget.yieldTurn()

    expect(didOthersRun).toBe(true)
  })

  it('ends when the time is up, and marks the result as truncated', () => {
    const spent = new SearchBudget(undefined, 0)
    const fresh = new SearchBudget(undefined)

    expect([spent.spent, spent.truncated]).toEqual([true, true])
    expect([fresh.spent, fresh.truncated]).toEqual([false, false])
  })

  it('throws the reason of its signal', async () => {
    const budget = new SearchBudget(AbortSignal.abort(new Error('no longer wanted')))

    await expect(budget.yieldTurn()).rejects.toThrow('no longer wanted')
  })
})
