import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { deferred } from '../../../devcluster/deferred.ts'
import { type FileReport, type ProjectReport, REPORT_FILE } from './report.ts'

/**
 * The projects of `vitest.cluster.config.ts` as the gate runs them: projects of one step run in parallel, the steps run
 * in sequence. Each project is a separate process, so that its cluster stops when its tests end. Projects that measure
 * short times or compare the whole machine do not run in parallel with others.
 */
export const STEPS = [['cluster', 'waits'], ['packets'], ['harness', 'gitops'], ['api'], ['machine']] as const

const REPORTER = join(import.meta.dirname, 'report.ts')
/** If more files fail, the failures are not random, and no file is run again. */
const MAX_AGAIN = 4
const FORCE_MS = 30_000
const MAX_LINES = 15
const MAX_FAILURES = 20

export interface Timed {
  readonly name: string
  readonly ms: number
}

export interface ProjectResult extends Timed {
  readonly passed: number
  readonly failed: number
  readonly files: readonly FileReport[]
  /** How many errors belong to none of the files. */
  readonly strays: number
  /** `file: test: reason` for each failed test and each failed file. */
  readonly failures: readonly string[]
  /** The same for each failure that did not happen a second time. */
  readonly flaky: readonly string[]
}

export interface Steps extends Output {
  /** Part of the files of each project, for example `1/2`. All of them by default. */
  readonly shard?: string | undefined
}

/**
 * Runs every project and returns the result of each. A project that is unfinished at the deadline has failed. Files
 * that failed run once more by themselves, unless so many failed that it cannot be by chance.
 */
export async function runSteps({ shard, ...output }: Steps): Promise<ProjectResult[]> {
  const results: ProjectResult[] = []
  const selection = shard === undefined ? [] : [`--shard=${shard}`]
  for (const step of STEPS) {
    const lanes = step.map((name, index) => runProject(name, { ...output, selection, aside: index > 0 }))
    results.push(...(await Promise.all(lanes)))
  }
  if (sum(results.map((result) => brokenFiles(result).length)) > MAX_AGAIN) return results
  const final: ProjectResult[] = []
  for (const result of results) {
    const broken = brokenFiles(result)
    const again =
      broken.length > 0 ? await runProject(result.name, { ...output, selection: broken }) : undefined
    final.push(again ? judge(result, again) : result)
  }
  return final
}

const brokenFiles = ({ files }: ProjectResult): string[] =>
  files.filter(({ failures }) => failures.length > 0).map(({ file }) => file)
const sum = (numbers: readonly number[]): number => numbers.reduce((total, one) => total + one, 0)

interface Output {
  /** When everything must have ended, in milliseconds since 1970. */
  readonly deadline: number
  readonly print: (text: string) => void
}

interface Lane extends Output {
  /** Prints the output only when the project has ended, so that parallel projects do not mix their output. */
  readonly aside?: boolean
  /** Files, or options of vitest, that select what runs. All of the project by default. */
  readonly selection: readonly string[]
}

async function runProject(name: string, lane: Lane): Promise<ProjectResult> {
  const { deadline, print, aside = false, selection } = lane
  const folder = mkdtempSync(join(tmpdir(), 'cluster-ci-'))
  const file = join(folder, 'report.json')
  const args = ['--project', name, '--reporter=default', `--reporter=${REPORTER}`, ...selection]
  const begun = performance.now()
  const child = spawn(process.execPath, [join(import.meta.dirname, 'run-suites.ts'), ...args], {
    stdio: ['ignore', aside ? 'pipe' : 'inherit', aside ? 'pipe' : 'inherit'],
    env: { ...process.env, [REPORT_FILE]: file },
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
    const report = JSON.parse(readFileSync(file, 'utf8')) as ProjectReport
    return { name, ms: performance.now() - begun, ...countsOf(report, code === 0) }
  } catch (error) {
    print(`the suites of ${name} left no report: ${error}\n`)
    const failures = [`project ${name} left no report`]
    const nothing = { passed: 0, failed: 1, files: [], strays: 0, failures, flaky: [] }
    return { name, ms: performance.now() - begun, ...nothing }
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

/** Adds up a project's report. A project that failed outside its files counts as one failure. */
export function countsOf({ files, strays }: ProjectReport, ended: boolean): Omit<ProjectResult, keyof Timed> {
  const failures = files.flatMap((one) => one.failures.map((line) => `${one.file}: ${line}`))
  const good = ended && strays === 0
  return {
    passed: sum(files.map(({ passed }) => passed)),
    failed: Math.max(failures.length, good ? 0 : 1),
    files,
    strays,
    failures,
    flaky: files.flatMap((one) => one.repeated.map((line) => `${one.file}: ${line}`)),
  }
}

/**
 * The result of a project whose failed files ran a second time, with nothing in parallel. A file that passed then
 * counts as passed, and its first failures are listed as flaky.
 */
export function judge(first: ProjectResult, again: ProjectResult): ProjectResult {
  const mended = again.files.filter((file) => file.failures.length === 0 && again.strays === 0)
  const second = (file: FileReport) => mended.find((one) => one.file === file.file)
  const files = first.files.map((file) => second(file) ?? file)
  const flaky = first.files
    .filter(second)
    .flatMap((file) => file.failures.map((line) => `${file.file}: ${line}`))
  const { strays, ...rest } = countsOf({ files, strays: first.strays }, true)
  return { ...rest, strays, name: first.name, ms: first.ms + again.ms, flaky: [...rest.flaky, ...flaky] }
}

/** Where the time went: every project in the order in which they ran, and the files that took longest. */
export function timeTable(results: readonly ProjectResult[]): string {
  const files = results
    .flatMap((result) => result.files.map(({ file, ms }) => ({ name: file, ms })))
    .sort((a, b) => b.ms - a.ms)
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

/** The failures that did not happen a second time. Each is a defect. */
export const flakyLines = (results: readonly ProjectResult[]): string[] =>
  results.flatMap(({ flaky }) => flaky)

function listOf(lines: readonly string[]): string {
  const more = lines.length - MAX_FAILURES
  return [...lines.slice(0, MAX_FAILURES), ...(more > 0 ? [`and ${more} more`] : [])]
    .map((line) => `     ${line}`)
    .join('\n')
}
