import { globSync } from 'node:fs'
import { join, matchesGlob } from 'node:path'
import { describe, expect, it } from 'vitest'
import config from '../../vitest.cluster.config.ts'
import type { FileReport } from '../cluster/run/report.ts'
import {
  countsOf,
  failureList,
  flakyLines,
  judge,
  type ProjectResult,
  STEPS,
  timeTable,
} from '../cluster/run/suites.ts'

interface Project {
  readonly test: {
    readonly name: string
    readonly include: string[]
    readonly exclude?: string[]
    readonly retry?: { count: number; condition: RegExp }
  }
}

const ROOT = join(import.meta.dirname, '..', '..')
const projects = ((config.test?.projects ?? []) as unknown as Project[]).map(({ test }) => test)

const file = (name: string, change: Partial<FileReport> = {}): FileReport => ({
  file: `test/cluster/${name}`,
  ms: 1,
  passed: 2,
  skipped: 0,
  failures: [],
  repeated: [],
  ...change,
})
const projectOf = (name: string, files: readonly FileReport[], strays = 0): ProjectResult => ({
  name,
  ms: 1,
  ...countsOf({ files, strays }, files.every(({ failures }) => failures.length === 0) && strays === 0),
})
const broken = file('pod.test.ts', { failures: ['a pod ends: Error: still there'] })

describe('the steps of npm run ci:cluster', () => {
  it('contain every project once', () => {
    expect([...STEPS.flat()].sort()).toEqual(projects.map(({ name }) => name).sort())
  })

  it('contain every test file once', () => {
    const files = globSync('test/cluster/**/*.test.ts', { cwd: ROOT })
    const matches = (file: string, globs: readonly string[] = []) =>
      globs.some((glob) => matchesGlob(file, glob))

    const places = files.map((file) => [
      file,
      projects.filter(({ include, exclude }) => matches(file, include) && !matches(file, exclude)).length,
    ])

    expect(files.length).toBeGreaterThan(40)
    expect(places.filter(([, count]) => count !== 1)).toEqual([])
  })
})

describe('a failed cluster test', () => {
  it.each(projects)('is repeated in $name when only a time limit failed', ({ retry }) => {
    expect(retry?.count).toBe(1)
    for (const time of [
      'expected 2008.09 to be less than 2000',
      'the cancel: expected 3001 to be less than 3000',
    ])
      expect(time).toMatch(retry?.condition as RegExp)
  })

  it.each([
    'expected 1 to be 2 // Object.is equality',
    'expected 9 to be less than or equal to 8',
    'expected [ 1 ] to be less than 2',
    'the pod is gone did not happen within 10000 ms',
    'Test timed out in 120000ms.',
  ])('is not repeated for the reason %j', (reason) => {
    for (const { retry } of projects) expect(reason).not.toMatch(retry?.condition as RegExp)
  })
})

describe('the result of a project', () => {
  it.each([
    { what: 'no failure where all passed', files: [file('a')], ended: true, failed: 0 },
    { what: 'no failure where all was skipped', files: [file('a', { passed: 0 })], ended: true, failed: 0 },
    { what: 'each failure', files: [file('a', { failures: ['x', 'y'] }), broken], ended: false, failed: 3 },
    { what: 'one where a hook failed', files: [file('a', { failures: ['hook'] })], ended: false, failed: 1 },
    { what: 'one where an error belongs to no file', files: [file('a')], strays: 1, ended: true, failed: 1 },
    { what: 'one where the runner did not end well', files: [file('a')], ended: false, failed: 1 },
  ])('is $what', ({ files, strays = 0, ended, failed }) => {
    expect(countsOf({ files, strays }, ended)).toMatchObject({ failed })
  })

  it('is printed with its time and its slowest files in at most fifteen lines', () => {
    const files = Array.from({ length: 20 }, (_, index) => file(`${index}`, { ms: index * 1_000 }))

    const lines = timeTable([
      { ...projectOf('first', files), ms: 61_400 },
      { ...projectOf('second', []), ms: 9_000 },
    ]).split('\n')

    expect(lines).toHaveLength(15)
    expect(lines.slice(0, 4)).toEqual([
      '    61 s  project first',
      '     9 s  project second',
      '    19 s  test/cluster/19',
      '    18 s  test/cluster/18',
    ])
  })
})

describe('a project whose failed files ran again', () => {
  it('has passed, with the first failures listed as flaky', () => {
    const again = file('pod.test.ts', { passed: 3 })

    const result = judge(projectOf('cluster', [broken, file('good.test.ts')]), projectOf('cluster', [again]))

    expect(result).toMatchObject({ passed: 5, failed: 0, failures: [] })
    expect(flakyLines([result])).toEqual(['test/cluster/pod.test.ts: a pod ends: Error: still there'])
  })

  it('has failed where the file failed again', () => {
    const result = judge(projectOf('cluster', [broken]), projectOf('cluster', [broken]))

    expect(result).toMatchObject({ failed: 1, flaky: [] })
  })

  it('has failed where an error belonged to no file, in either run', () => {
    const good = file('pod.test.ts')

    expect(judge(projectOf('cluster', [broken], 1), projectOf('cluster', [good]))).toMatchObject({
      failed: 1,
    })
    expect(judge(projectOf('cluster', [broken]), projectOf('cluster', [good], 1))).toMatchObject({
      failed: 1,
    })
  })

  it('has failed where the second run left no report', () => {
    const nothing = { ...projectOf('cluster', []), failed: 1, failures: ['project cluster left no report'] }

    expect(judge(projectOf('cluster', [broken]), nothing)).toMatchObject({ failed: 1, flaky: [] })
  })
})

describe('the list of failures', () => {
  it('contains file, test and reason', () => {
    const list = failureList([projectOf('cluster', [broken, file('good')]), { ...projectOf('waits', [], 1) }])

    expect(list.split('\n').map((line) => line.trim())).toEqual([
      'test/cluster/pod.test.ts: a pod ends: Error: still there',
      'project waits failed outside its tests',
    ])
  })

  it('lists tests that passed when they were repeated separately', () => {
    const late = 'a cancel is quick: AssertionError: expected 9 to be less than 2'
    const results = [projectOf('cluster', [file('pod.test.ts', { repeated: [late] })])]

    expect(flakyLines(results)).toEqual([`test/cluster/pod.test.ts: ${late}`])
    expect(failureList(results)).toBe('')
  })

  it('has a limited length', () => {
    const failures = Array.from({ length: 300 }, (_, index) => `test ${index}`)

    const lines = failureList([projectOf('cluster', [file('pod.test.ts', { failures })])]).split('\n')

    expect(lines).toHaveLength(21)
    expect(lines.at(-1)?.trim()).toBe('and 280 more')
  })
})
