import { relative } from 'node:path'
import { stripVTControlCharacters } from 'node:util'
import { startVitest, type TestModule } from 'vitest/node'
import { present } from '../../runtime/kit/present.ts'

/** The result of one run of one file. */
export interface FileResult {
  /** Path relative to the project, for example `test/cli/help.test.ts`. */
  readonly file: string
  readonly passed: number
  readonly skipped: number
  /** `test: reason` for each failed test, and for each file that failed outside its tests. */
  readonly failures: readonly string[]
}

export interface RunResult {
  readonly files: readonly FileResult[]
  /** Errors that vitest could not assign to a test. */
  readonly strays: number
}

/** Which tests of a folder run: all of them by default. */
export interface Selection {
  readonly files?: readonly string[]
  /** A project of `vitest.config.ts`, or `!` and a project that is left out. */
  readonly project?: string | undefined
  /** Part of the files, for example `1/2`. */
  readonly shard?: string | undefined
}

/** Runs tests of a folder with a `vitest.config.ts`, and prints them as `npm test` does. */
export async function runFiles(
  root: string,
  { files = [], project, shard }: Selection = {},
): Promise<RunResult> {
  const options = { root, run: true, watch: false, ...present({ project, shard }) }
  const vitest = await startVitest('test', [...files], options)
  const { state } = vitest
  const result = {
    files: state.getTestModules().map((module) => resultOf(root, module)),
    strays: state.getUnhandledErrors().length,
  }
  await vitest.close()
  return result
}

/** The counts and the failures of one file that has run. */
export function resultOf(root: string, module: TestModule): FileResult {
  const tests = [...module.children.allTests()]
  const inState = (state: string) => tests.filter((test) => test.result().state === state)
  const failed = inState('failed').map((test) => lineOf(test.fullName, test.result().errors?.[0]?.message))
  const outside = failed.length === 0 && !module.ok() ? [lineOf('', errorOf(module))] : []
  return {
    file: relative(root, module.moduleId),
    passed: inState('passed').length,
    skipped: inState('skipped').length,
    failures: [...failed, ...outside],
  }
}

/** A file can fail outside its tests: while it is loaded, or in a hook of a `describe` block. */
function errorOf(module: TestModule): string | undefined {
  const blocks = [...module.children.allSuites()].flatMap((suite) => suite.errors())
  return [...module.errors(), ...blocks][0]?.message
}

const MAX_CHARS = 300

export const lineOf = (test: string, reason = 'no reason was given'): string =>
  [test, stripVTControlCharacters(reason).trim().split('\n', 1)[0]]
    .filter((part) => part)
    .join(': ')
    .slice(0, MAX_CHARS)
