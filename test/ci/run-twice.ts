import type { FileResult, RunResult } from './run-files.ts'

/** If more files fail, the failures are not random, and no file is run again. */
const MAX_AGAIN = 20

export interface Verdict {
  readonly passed: number
  readonly failed: number
  readonly skipped: number
  /** `file: test: reason` of each failure that did not happen in the second run. */
  readonly flaky: readonly string[]
  /** `file: test: reason` of each other failure. */
  readonly failures: readonly string[]
}

/**
 * Runs every file once, and each failed file once more by itself, unless too many failed. If the second run passes, the
 * file counts as passed and its first failures are listed as flaky. Each entry is a defect, either in the test or in
 * the code under test.
 */
export async function runTwice(run: (files?: readonly string[]) => Promise<RunResult>): Promise<Verdict> {
  const first = await run()
  const broken = first.files.filter(hasFailed)
  const verdicts = first.files
    .filter((one) => !hasFailed(one))
    .map((one) => ({ ...one, flaky: [] as string[] }))
  for (const one of broken) {
    const again = broken.length > MAX_AGAIN ? undefined : await run([one.file])
    verdicts.push(judge(one, again))
  }
  const strays = first.strays > 0 ? [`${first.strays} errors outside all tests`] : []
  // A run without any test proves nothing.
  const empty = first.files.length === 0 ? ['no test was found'] : []
  const failures = [
    ...verdicts.flatMap(({ file, failures: list }) => list.map((line) => `${file}: ${line}`)),
    ...strays,
    ...empty,
  ]
  return {
    passed: sum(verdicts.map(({ passed }) => passed)),
    skipped: sum(verdicts.map(({ skipped }) => skipped)),
    failed: failures.length,
    flaky: verdicts.flatMap(({ flaky }) => flaky),
    failures,
  }
}

function judge(first: FileResult, again: RunResult | undefined): FileResult & { readonly flaky: string[] } {
  const [second] = again?.files.filter(({ file }) => file === first.file) ?? []
  if (!second || hasFailed(second) || again?.strays) return { ...first, flaky: [] }
  return { ...second, flaky: first.failures.map((line) => `${first.file}: ${line}`) }
}

const hasFailed = ({ failures }: FileResult): boolean => failures.length > 0
const sum = (numbers: readonly number[]): number => numbers.reduce((total, one) => total + one, 0)
