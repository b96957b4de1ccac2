import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { stripVTControlCharacters } from 'node:util'
import { deferred } from '../../../devcluster/deferred.ts'

/**
 * The projects of `vitest.cluster.config.ts` as the gate runs them: projects of one step run in parallel, the steps run
 * in sequence. Each project is a separate process, so that its cluster stops when its tests end. Projects that measure
 * short times or compare the whole machine do not run in parallel with others.
 */
export const STEPS = [['cluster', 'waits'], ['packets'], ['harness', 'gitops'], ['api'], ['machine']] as const

const ROOT = join(import.meta.dirname, '..', '..', '..')
const FORCE_MS = 30_000
const MAX_LINES = 15
const MAX_FAILURES = 20
const MAX_FAILURE_CHARS = 400

export interface Timed {
  readonly name: string
  readonly ms: number
}

export interface ProjectResult extends Timed {
  readonly passed: number
  readonly failed: number
  readonly files: readonly Timed[]
  /** A line for each failed test and each failed file: its place, its name, and the start of the error. */
  readonly failures: readonly string[]
  /** The same line for each test that exceeded its time and passed in a second measurement. */
  readonly repeated: readonly string[]
}

/** Runs every project and returns the result of each. A project that is unfinished at the deadline has failed. */
export async function runSteps(deadline: number, print: (text: string) => void): Promise<ProjectResult[]> {
  const results: ProjectResult[] = []
  for (const step of STEPS) {
    const lanes = step.map((name, index) => runProject(name, { deadline, print, aside: index > 0 }))
    results.push(...(await Promise.all(lanes)))
  }
  return results
}

interface Lane {
  readonly deadline: number
  readonly print: (text: string) => void
  /** Prints the output only when the project has ended, so that parallel projects do not mix their output. */
  readonly aside: boolean
}

async function runProject(name: string, { deadline, print, aside }: Lane): Promise<ProjectResult> {
  const folder = mkdtempSync(join(tmpdir(), 'cluster-ci-'))
  const file = join(folder, 'report.json')
  const args = ['--project', name, '--reporter=default', '--reporter=json', `--outputFile.json=${file}`]
  const begun = performance.now()
  const child = spawn(process.execPath, [join(import.meta.dirname, 'run-suites.ts'), ...args], {
    stdio: ['ignore', aside ? 'pipe' : 'inherit', aside ? 'pipe' : 'inherit'],
  })
  let said = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (text: string) => {
      said += text
    })
  }
  try {
    const code = await endOf(child, deadline)
    if (aside) print(said)
    return { name, ms: performance.now() - begun, ...countsOf(readFileSync(file, 'utf8'), code === 0) }
  } catch (error) {
    print(`the suites of ${name} left no report: ${error}\n`)
    const failures = [`project ${name} left no report`]
    return { name, ms: performance.now() - begun, passed: 0, failed: 1, files: [], failures, repeated: [] }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Returns the exit code. At the deadline the process receives SIGTERM, and a little later SIGKILL. */
async function endOf(child: ChildProcess, deadline: number): Promise<number | null> {
  const { promise, resolve, reject } = deferred<number | null>()
  child.on('error', reject).on('close', resolve)
  const left = Math.max(0, deadline - Date.now())
  const timers = [
    setTimeout(() => child.kill('SIGTERM'), left),
    setTimeout(() => child.kill('SIGKILL'), left + FORCE_MS),
  ]
  try {
    return await promise
  } finally {
    for (const timer of timers) clearTimeout(timer)
  }
}

interface Report {
  readonly numPassedTests: number
  readonly numFailedTests: number
  readonly success: boolean
  readonly testResults: readonly {
    readonly name: string
    readonly startTime: number
    readonly endTime: number
    readonly status: string
    readonly message: string
    readonly assertionResults: readonly {
      readonly fullName: string
      readonly status: string
      readonly failureMessages: readonly string[]
    }[]
  }[]
}

/** Reads the counts from vitest's report. A project that failed outside its tests counts as one failure. */
export function countsOf(json: string, ended: boolean): Omit<ProjectResult, keyof Timed> {
  const { numPassedTests: passed, numFailedTests, success, testResults } = JSON.parse(json) as Report
  const good = ended && success && numFailedTests === 0
  const files = testResults.map(({ name, startTime, endTime }) => ({
    name: relative(ROOT, name),
    ms: endTime - startTime,
  }))
  return {
    passed,
    failed: Math.max(numFailedTests, good ? 0 : 1),
    files,
    failures: testResults.flatMap(failuresOf),
    repeated: testResults.flatMap(({ name, assertionResults }) =>
      assertionResults
        .filter(({ status, failureMessages }) => status === 'passed' && failureMessages.length > 0)
        .map(({ fullName, failureMessages }) => lineOf(name, fullName, failureMessages[0])),
    ),
  }
}

const lineOf = (file: string, what: string, reason = ''): string =>
  [relative(ROOT, file), what, stripVTControlCharacters(reason).trim().split('\n', 1)[0]]
    .filter((part) => part)
    .join(': ')
    .slice(0, MAX_FAILURE_CHARS)

/** Where no test of a failed file failed, the file did (its setup, or a hook). */
function failuresOf({ name, status, message, assertionResults }: Report['testResults'][number]): string[] {
  const failed = assertionResults.filter((test) => test.status === 'failed')
  if (failed.length === 0) return status === 'failed' ? [lineOf(name, '', message)] : []
  return failed.map(({ fullName, failureMessages }) => lineOf(name, fullName, failureMessages[0]))
}

/** Where the time went: every project in the order in which they ran, and the files that took longest. */
export function timeTable(results: readonly ProjectResult[]): string {
  const files = results.flatMap((result) => result.files).sort((a, b) => b.ms - a.ms)
  const line = ({ name, ms }: Timed) => `${(ms / 1000).toFixed(0).padStart(6)} s  ${name}`
  const projects = results.map(({ name, ms }) => line({ name: `project ${name}`, ms }))
  return [...projects, ...files.slice(0, MAX_LINES - projects.length).map(line)].join('\n')
}

/** The failures by name, and the number of omitted ones. Empty without failures. */
export function failureList(results: readonly ProjectResult[]): string {
  const failures = results.flatMap(({ name, failed, failures: known }) =>
    known.length === 0 && failed > 0 ? [`project ${name} failed outside its tests`] : known,
  )
  return listOf(failures)
}

/** Tests that exceeded their time first, and passed in a second measurement. */
export const flakyLines = (results: readonly ProjectResult[]): string[] =>
  results.flatMap(({ repeated }) => repeated)

function listOf(lines: readonly string[]): string {
  const more = lines.length - MAX_FAILURES
  return [...lines.slice(0, MAX_FAILURES), ...(more > 0 ? [`and ${more} more`] : [])]
    .map((line) => `     ${line}`)
    .join('\n')
}
