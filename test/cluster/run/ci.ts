import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { completeOptions } from '../../../devcluster/cluster-options.ts'
import { installCommand, missingPackages } from '../../../devcluster/host/packages.ts'
import { whyNoNodes } from '../../../devcluster/host/privileges.ts'
import { failureList, flakyLines, runSteps, timeTable } from './suites.ts'

/**
 * The cluster part of continuous integration. It installs the Debian packages that the suites need, builds the
 * programs, runs the suites, takes down the remaining clusters, prints a time table, and ends with one line `N passed,
 * N failed`. With `--shard 1/2`, half of the files of each project run.
 */
const MINUTE_MS = 60_000
const LIMITS = { install: 5 * MINUTE_MS, build: 35 * MINUTE_MS, suites: 60 * MINUTE_MS, down: MINUTE_MS }

function print(line: string): void {
  process.stdout.write(`${line}\n`)
}

/** Runs one step with its output shown, and returns whether it succeeded. */
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

const COMMAND = join(import.meta.dirname, '../../../devcluster/main.ts')

/** Installs packages only on a CI machine. On any other machine it prints the command. */
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

/** Returns how many tests passed and how many failed. */
async function runSuites(shard: string | undefined): Promise<{ passed: number; failed: number }> {
  const results = await runSteps({
    deadline: Date.now() + LIMITS.suites,
    print: (text) => process.stdout.write(text),
    shard,
  })
  print(`where the time went:\n${timeTable(results)}`)
  for (const line of flakyLines(results)) print(`flaky: ${line}`)
  const failures = failureList(results)
  if (failures) print(`what failed:\n${failures}`)
  const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0)
  return {
    passed: sum(results.map(({ passed }) => passed)),
    failed: sum(results.map(({ failed }) => failed)),
  }
}

async function main(): Promise<number> {
  const { shard } = parseArgs({ options: { shard: { type: 'string' } } }).values
  const ready = installPackages() && step([process.execPath, COMMAND, 'build'], LIMITS.build)
  const { passed, failed } = ready ? await runSuites(shard) : { passed: 0, failed: 1 }
  // On a developer's machine, other clusters must keep running.
  if (process.env['CI'] === 'true') step([process.execPath, COMMAND, 'down', '--all'], LIMITS.down)
  // A run that executed nothing has shown nothing.
  const good = failed === 0 && passed > 0
  print(`${passed} passed, ${Math.max(failed, good ? 0 : 1)} failed`)
  return good ? 0 : 1
}

process.exitCode = await main()
