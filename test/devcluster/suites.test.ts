import { globSync } from 'node:fs'
import { join, matchesGlob } from 'node:path'
import { describe, expect, it } from 'vitest'
import config from '../../vitest.cluster.config.ts'
import { countsOf, failureList, flakyLines, STEPS, timeTable } from '../cluster/run/suites.ts'

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

const report = (change: object) =>
  JSON.stringify({ numPassedTests: 2, numFailedTests: 0, success: true, testResults: [], ...change })

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
    { what: 'no failure where all passed', json: report({}), ended: true, failed: 0 },
    { what: 'no failure where all was skipped', json: report({ numPassedTests: 0 }), ended: true, failed: 0 },
    { what: 'each failure', json: report({ numFailedTests: 3, success: false }), ended: false, failed: 3 },
    { what: 'one where a file could not start', json: report({ success: false }), ended: false, failed: 1 },
    { what: 'one where the runner did not end well', json: report({}), ended: false, failed: 1 },
  ])('is $what', ({ json, ended, failed }) => {
    expect(countsOf(json, ended)).toMatchObject({ failed })
  })

  it('is printed with its time and its slowest files in at most fifteen lines', () => {
    const files = Array.from({ length: 20 }, (_, index) => ({ name: `file-${index}`, ms: index * 1_000 }))

    const lines = timeTable([
      { name: 'first', ms: 61_400, passed: 1, failed: 0, files, failures: [], repeated: [] },
      { name: 'second', ms: 9_000, passed: 1, failed: 0, files: [], failures: [], repeated: [] },
    ]).split('\n')

    expect(lines).toHaveLength(15)
    expect(lines.slice(0, 4)).toEqual([
      '    61 s  project first',
      '     9 s  project second',
      '    19 s  file-19',
      '    18 s  file-18',
    ])
  })
})

describe('the list of failures', () => {
  const test = (fullName: string, ...failureMessages: string[]) => ({
    fullName,
    status: failureMessages.length > 0 ? 'failed' : 'passed',
    failureMessages,
  })
  const file = (name: string, change: object) => ({
    name: join(ROOT, 'test/cluster', name),
    startTime: 0,
    endTime: 1,
    status: 'failed',
    message: '',
    assertionResults: [],
    ...change,
  })
  const projectOf = (name: string, testResults: readonly object[]) => ({
    name,
    ms: 1,
    ...countsOf(report({ numFailedTests: 1, success: false, testResults }), false),
  })

  it('contains file, test and the first line of the reason', () => {
    const pod = file('pod.test.ts', {
      assertionResults: [
        test('a pod starts'),
        test('a pod ends', '\u001b[31mError: still there\u001b[39m\n    at x'),
      ],
    })
    const setup = file('setup.test.ts', { message: 'no cluster\nat y' })
    const good = file('good.test.ts', { status: 'passed', assertionResults: [test('is good')] })

    const list = failureList([projectOf('cluster', [pod, setup, good]), projectOf('waits', [])])

    expect(list.split('\n').map((line) => line.trim())).toEqual([
      'test/cluster/pod.test.ts: a pod ends: Error: still there',
      'test/cluster/setup.test.ts: no cluster',
      'project waits failed outside its tests',
    ])
  })

  it('lists tests that passed when they were repeated separately', () => {
    const late = {
      ...test('a cancel is quick', 'AssertionError: expected 9 to be less than 2\n at z'),
      status: 'passed',
    }
    const pod = file('pod.test.ts', { status: 'passed', assertionResults: [test('a pod starts'), late] })
    const results = [{ name: 'cluster', ms: 1, ...countsOf(report({ testResults: [pod] }), true) }]

    expect(flakyLines(results)).toEqual([
      'test/cluster/pod.test.ts: a cancel is quick: AssertionError: expected 9 to be less than 2',
    ])
    expect(failureList(results)).toBe('')
  })

  it('has a limited length', () => {
    const assertionResults = Array.from({ length: 300 }, (_, index) =>
      test(`test ${index}`, 'x'.repeat(5_000)),
    )

    const lines = failureList([projectOf('cluster', [file('pod.test.ts', { assertionResults })])]).split('\n')

    expect(lines).toHaveLength(21)
    expect(lines.at(-1)?.trim()).toBe('and 280 more')
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThan(410)
  })
})
