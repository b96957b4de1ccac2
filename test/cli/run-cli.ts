import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, onTestFinished } from 'vitest'
import { processesOf } from '../../cli/demo/left-behind.ts'
import { deadline } from '../../runtime/kit/deadline.ts'
import { CLI, COMPILE_CACHE } from '../helpers/built-programs.ts'
import { until as untilHolds } from '../helpers/until.ts'

/** A temporary folder, deleted after the test. */
export async function aFolder(prefix: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), prefix))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  return folder
}

interface Settings {
  readonly env?: Record<string, string>
  readonly cwd?: string
  readonly input?: string
  /** @default 150 seconds */
  readonly withinMs?: number
}
type Outcome = { readonly status: number | null; readonly stdout: string; readonly stderr: string }

/** A temporary home, where the services of these tests keep their state. */
const HOME = mkdtempSync(join(tmpdir(), 'aw-cli-home-'))
afterAll(() => rmSync(HOME, { recursive: true, force: true }))

const environment = (more: Record<string, string> = {}) => ({
  PATH: process.env['PATH'] ?? '',
  HOME,
  ...COMPILE_CACHE,
  ...more,
})

/** Runs the command to its end, without a terminal. */
export async function runCli(argv: readonly string[], settings: Settings = {}): Promise<Outcome> {
  const child = startCli(argv, settings)
  child.stdin.end(settings.input ?? '')
  const [stdout, stderr, [status]] = await deadline(
    `agentweaver ${argv.join(' ')}`,
    settings.withinMs ?? 150_000,
    Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')]),
  )
  return { stdout, stderr, status: status as number | null }
}

export const startCli = (argv: readonly string[], { env, cwd = tmpdir() }: Settings = {}) =>
  spawn(process.execPath, [CLI, ...argv], { cwd, env: environment(env), stdio: 'pipe' })

/** The command at its own pseudo-terminal, with its screen and keyboard. */
export interface AtTerminal extends AsyncDisposable {
  readonly screen: () => string
  type(keys: string): void
  /** Waits until the screen shows a text after position `after`. */
  shows(expected: string | RegExp, after?: number): Promise<void>
  readonly exited: Promise<number | null>
}

const quote = (word: string) => `'${word.replaceAll("'", `'\\''`)}'`

/** Runs a program in a pseudo-terminal, which `script` creates. */
export function startAtTerminal(argv: readonly string[], settings: Settings = {}, program = CLI): AtTerminal {
  const line = [process.execPath, program, ...argv].map(quote).join(' ')
  const wide = `stty cols 100 rows 40; exec ${line}`
  const child = spawn('script', ['--quiet', '--return', '--flush', '--command', wide, '/dev/null'], {
    cwd: settings.cwd ?? tmpdir(),
    env: environment({ TERM: 'xterm', NO_COLOR: '1', ...settings.env }),
    stdio: 'pipe',
  })
  let screen = ''
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    screen += chunk
  })
  const exited = once(child, 'close').then(([status]) => status as number | null)
  return {
    screen: () => screen,
    type: (keys) => child.stdin.write(keys),
    shows: (expected, after = 0) =>
      until(
        `the screen shows ${expected}`,
        () => screen.slice(after).search(expected) >= 0,
        () => screen,
      ),
    exited: deadline('the end of the command', 170_000, exited),
    async [Symbol.asyncDispose]() {
      if (child.exitCode === null) child.kill('SIGKILL')
      await exited
    },
  }
}

/** Waits for a condition. The error contains the last value. */
export async function until(
  what: string,
  holds: () => boolean,
  instead: () => string = () => '',
): Promise<void> {
  await untilHolds(what, holds, 120_000).catch((cause: Error) => {
    throw new Error(`${cause.message}\n${instead()}`, { cause })
  })
}

/** Waits until no process works in the folder or has its path in its arguments. */
export async function untilQuiet(folder: string): Promise<void> {
  await untilHolds(`no process works in ${folder}`, async () => (await processesOf(folder)).length === 0)
}
