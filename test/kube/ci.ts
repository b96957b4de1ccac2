import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { completeOptions } from './cluster-options.ts'
import { installCommand, missingPackages } from './host/packages.ts'
import { whyNoNodes } from './host/privileges.ts'

/**
 * The cluster part of continuous integration: installs what the suites need of Debian, builds the programs, runs the
 * suites, takes down what is left, and closes with one line `N passed, N failed`.
 */
const MINUTE_MS = 60_000
const LIMITS = { install: 5 * MINUTE_MS, build: 35 * MINUTE_MS, suites: 40 * MINUTE_MS, down: MINUTE_MS }

function print(line: string): void {
  process.stdout.write(`${line}\n`)
}

/** Runs one step with its output shown, and answers whether it succeeded. */
function step(argv: readonly string[], timeoutMs: number): boolean {
  const [program = '', ...args] = argv
  const { status, error } = spawnSync(program, args, {
    stdio: 'inherit',
    timeout: timeoutMs,
    killSignal: 'SIGKILL',
  })
  if (error) print(`${argv.join(' ')}: ${error.message}`)
  return status === 0
}

const script = (name: string) => [process.execPath, join(import.meta.dirname, name)]

/** Only a machine that says it is CI is changed; a person is told the command. */
function installPackages(): boolean {
  const missing = missingPackages(completeOptions({ gvisor: true, cilium: 'instant' }))
  if (missing.length === 0 || whyNoNodes()) return true
  const command = installCommand(missing)
  if (process.env['CI'] !== 'true') {
    print(`missing on this machine: ${missing.join(', ')}. Install with: ${command}`)
    return false
  }
  print(command)
  return step(['sh', '-c', command], LIMITS.install)
}

interface Report {
  readonly numPassedTests: number
  readonly numFailedTests: number
  readonly success: boolean
}

function runSuites(): Report {
  const folder = mkdtempSync(join(tmpdir(), 'cluster-ci-'))
  const file = join(folder, 'report.json')
  const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${file}`]
  try {
    const success = step([...script('run-suites.ts'), ...reporters], LIMITS.suites)
    const report = JSON.parse(readFileSync(file, 'utf8')) as Report
    return { ...report, success: success && report.success }
  } catch (error) {
    print(`the suites left no report: ${error}`)
    return { numPassedTests: 0, numFailedTests: 1, success: false }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

function main(): number {
  const ready = installPackages() && step([...script('main.ts'), 'build'], LIMITS.build)
  const report = ready ? runSuites() : { numPassedTests: 0, numFailedTests: 1, success: false }
  // A person's own clusters are not ours to end.
  if (process.env['CI'] === 'true') step([...script('main.ts'), 'down', '--all'], LIMITS.down)
  // A run that executed nothing has shown nothing.
  const good = report.success && report.numFailedTests === 0 && report.numPassedTests > 0
  print(`${report.numPassedTests} passed, ${Math.max(report.numFailedTests, good ? 0 : 1)} failed`)
  return good ? 0 : 1
}

process.exitCode = main()
