import { describe, expect, it } from 'vitest'
import type { FileResult, RunResult } from './run-files.ts'
import { runTwice } from './run-twice.ts'

const file = (name: string, ...failures: string[]): FileResult => ({
  file: name,
  passed: failures.length > 0 ? 1 : 2,
  skipped: 0,
  failures,
})

/** A fake test run that returns `results` in order and records the files it was called with. */
function runsOf(...results: readonly Partial<RunResult>[]) {
  const asked: (readonly string[] | undefined)[] = []
  const run = async (files?: readonly string[]): Promise<RunResult> => {
    asked.push(files)
    return { files: [], strays: 0, ...results[asked.length - 1] }
  }
  return { run, asked }
}

describe('a file that fails', () => {
  it('is run once more by itself, and counts as it did then', async () => {
    const { run, asked } = runsOf(
      { files: [file('a'), file('b', 'one: late'), file('c', 'two: wrong')] },
      { files: [file('b')] },
      { files: [file('c', 'two: wrong again')] },
    )

    expect(await runTwice(run)).toEqual({
      passed: 5,
      failed: 1,
      skipped: 0,
      flaky: ['b: one: late'],
      failures: ['c: two: wrong'],
    })
    expect(asked).toEqual([undefined, ['b'], ['c']])
  })

  it('fails if it is not found the second time, or leaves an error outside its tests', async () => {
    const lost = runsOf({ files: [file('a', 'one: late')] }, { files: [] })
    const stray = runsOf({ files: [file('a', 'one: late')] }, { files: [file('a')], strays: 1 })

    for (const { run } of [lost, stray])
      expect(await runTwice(run)).toMatchObject({ failed: 1, flaky: [], failures: ['a: one: late'] })
  })

  it('is not run again where very many do', async () => {
    const { run, asked } = runsOf({ files: Array.from({ length: 21 }, (_, n) => file(`f${n}`, 'x: y')) })

    expect(await runTwice(run)).toMatchObject({ failed: 21, flaky: [] })
    expect(asked).toHaveLength(1)
  })
})

it('fails where an error belongs to no test', async () => {
  const { run } = runsOf({ files: [file('a')], strays: 2 })

  expect(await runTwice(run)).toMatchObject({ failed: 1, failures: ['2 errors outside all tests'] })
})

it('fails without any test', async () => {
  expect(await runTwice(runsOf({}).run)).toMatchObject({ failed: 1, failures: ['no test was found'] })
})
