import { spawn } from 'node:child_process'
import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { withBuildLock } from '../../devcluster/build/build-lock.ts'
import { cacheKey } from '../../devcluster/build/cache-key.ts'
import { explainGoFailure } from '../../devcluster/build/go-command.ts'
import { createProgress, duration } from '../../devcluster/build/progress.ts'
import { pruneEntries, touchEntry } from '../../devcluster/build/prune-entries.ts'
import { cacheRoot, clearDeadScratch, makeScratch } from '../../devcluster/build/tool-cache.ts'
import { deferred } from '../../devcluster/deferred.ts'

const deps = { timeoutMs: 2_000, say: () => undefined }

describe('the cache of built programs', () => {
  let root: string

  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), 'tools-'))
  })
  afterEach(() => rmSync(root, { recursive: true, force: true }))

  it('is outside the clone and follows XDG_CACHE_HOME', () => {
    expect(cacheRoot({ XDG_CACHE_HOME: '/c' })).toBe('/c/agentweaver-sandbox/kube')
    expect(cacheRoot({})).toMatch(/\.cache\/agentweaver-sandbox\/kube$/)
  })

  it('identifies a build by its sources, flags and compiler', () => {
    expect(cacheKey('node', 'go1')).toBe(cacheKey('node', 'go1'))
    expect(cacheKey('node', 'go1')).not.toBe(cacheKey('node', 'go2'))
    expect(cacheKey('node', 'go1')).not.toBe(cacheKey('gvisor', 'go1'))
    expect(cacheKey('node', 'go1')).toMatch(/^node-[0-9a-f]{20}$/)
  })

  it('makes a build wait for another build', async () => {
    const order: string[] = []
    const { promise, resolve } = deferred()
    const lock = join(root, 'lock')
    const first = withBuildLock(lock, deps, async () => {
      await promise
      order.push('first')
    })
    const second = withBuildLock(lock, deps, async () => {
      order.push('second')
    })

    resolve()
    await Promise.all([first, second])

    expect(order).toEqual(['first', 'second'])
    expect(readdirSync(root)).toEqual([])
  })

  it('gives up on a lock that is never released', async () => {
    const lock = join(root, 'lock')
    const { promise, resolve } = deferred()
    const holder = withBuildLock(lock, deps, () => promise)

    await expect(withBuildLock(lock, { ...deps, timeoutMs: 100 }, async () => undefined)).rejects.toThrow(
      /still holds/,
    )

    resolve()
    await holder
  })

  it('takes over a lock whose owner has died', async () => {
    const lock = join(root, 'lock')
    mkdirSync(lock)
    writeFileSync(join(lock, 'owner.json'), JSON.stringify({ pid: process.pid, startTicks: '1' }))

    expect(await withBuildLock(lock, deps, async () => 'done')).toBe('done')
  })

  it('removes only the scratch folders of dead builds', () => {
    const own = makeScratch(root)
    mkdirSync(join(root, `scratch-${process.pid}-1`))
    mkdirSync(join(root, 'node-0123'))

    clearDeadScratch(root)

    expect(readdirSync(root).sort()).toEqual(['node-0123', own.split('/').at(-1)])
  })
})

describe('a cache entry', () => {
  const DAY_MS = 24 * 3_600_000
  let root: string
  let scratch: string

  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), 'tools-'))
    scratch = makeScratch(root)
  })
  afterEach(() => rmSync(root, { recursive: true, force: true }))

  function anEntry(module: string, daysUnused: number): string {
    const name = `${module}-${String(daysUnused).padStart(20, '0')}`
    mkdirSync(join(root, name, 'bin'), { recursive: true })
    touchEntry(join(root, name), new Date(Date.now() - daysUnused * DAY_MS))
    return name
  }
  const kept = () => readdirSync(root).filter((name) => !name.startsWith('scratch-'))

  it('is removed after two weeks without use', () => {
    const [used, unused] = [anEntry('node', 13), anEntry('node', 15)]

    expect(pruneEntries(root, scratch)).toEqual([unused])

    expect(kept()).toEqual([used])
    expect(readdirSync(scratch)).toEqual([])
  })

  it('is removed when three newer entries of the same module exist', () => {
    const newest = [anEntry('node', 1), anEntry('node', 2), anEntry('node', 3)]
    const [fourth, other] = [anEntry('node', 4), anEntry('gvisor', 5)]

    expect(pruneEntries(root, scratch)).toEqual([fourth])

    expect(kept().sort()).toEqual([other, ...newest])
  })

  it('stays while one of its programs runs', () => {
    const name = anEntry('node', 15)
    const program = join(root, name, 'bin', 'sleep')
    copyFileSync('/usr/bin/sleep', program)
    chmodSync(program, 0o755)
    touchEntry(join(root, name), new Date(Date.now() - 15 * DAY_MS))
    const running = spawn(program, ['60'], { stdio: 'ignore' })

    try {
      expect(pruneEntries(root, scratch)).toEqual([])
    } finally {
      running.kill('SIGKILL')
    }
  })

  it('counts as used after it was requested, and as missing when it does not exist', () => {
    const name = anEntry('node', 15)

    expect(touchEntry(join(root, name))).toBe(true)
    expect(touchEntry(join(root, 'node-none'))).toBe(false)

    expect(pruneEntries(root, scratch)).toEqual([])
  })

  it('is not confused with other files of the cache', () => {
    mkdirSync(join(root, 'images'))
    writeFileSync(join(root, 'durations.json'), '{}')
    for (const name of ['images', 'durations.json']) touchEntry(join(root, name), new Date(0))

    expect(pruneEntries(root, scratch)).toEqual([])
  })
})

describe('the progress of a build', () => {
  it('reports the compiled packages and the total time', () => {
    const said: string[] = []
    let now = 0
    const progress = createProgress('node', {
      say: (line) => said.push(line),
      expectedSeconds: 90,
      now: () => now,
    })
    progress.expect(2)

    progress.compiled('github.com/a/b')
    now = 16_000
    progress.compiled('errors')

    expect(said).toEqual(['node: 2 of 2 packages compiled, 16 s (about 1 min 30 s in all)'])
    expect(progress.elapsedSeconds()).toBe(16)

    now = 91_000
    progress.compiled('errors/more')

    expect(said.at(-1)).toBe('node: 3 of 2 packages compiled, 1 min 31 s (usually 1 min 30 s in all)')
  })

  it.each([
    [59_000, '59 s'],
    [61_000, '1 min 01 s'],
    [3_600_000, '60 min 00 s'],
  ])('spells %i ms as %s', (ms, text) => {
    expect(duration(ms)).toBe(text)
  })
})

describe('a build that fails', () => {
  it.each([
    ['write /x: no space left on device', /^the disk is full, so this build was not kept/],
    ['dial tcp 10.0.0.1:443: i/o timeout', /^Go cannot reach its module proxy/],
    ['main.go:3: undefined: x', /^go build -v failed:\nmain\.go:3/],
  ])('with %j says so', (line, words) => {
    expect(explainGoFailure(['build', '-v', './x'], [line])).toMatch(words)
  })
})
