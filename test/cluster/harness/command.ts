import { type ChildProcess, spawn } from 'node:child_process'
import { openSync } from 'node:fs'
import { join } from 'node:path'
import { deferred } from '../../../devcluster/deferred.ts'
import { waitUntil } from '../../../devcluster/host/wait-until.ts'
import { type Machine, newSince, TEST_MARKER } from './machine.ts'

const CLI = join(import.meta.dirname, '..', '..', '..', 'cli', 'main.ts')
const MAIN = join(import.meta.dirname, '..', '..', '..', 'devcluster', 'main.ts')

export interface Finished {
  readonly code: number | null
  readonly output: string
}

export interface CommandOptions {
  readonly env?: NodeJS.ProcessEnv
  /** A command and options that start the program, for example `setpriv` to change the user. */
  readonly before?: readonly string[]
}

export interface Running {
  readonly child: ChildProcess
  readonly pid: number
  output(): string
  readonly finished: Promise<Finished>
}

/** Starts `npm run cluster` without npm. */
export function startCommand(
  args: readonly string[],
  { env = {}, before = [] }: CommandOptions = {},
): Running {
  const [program = '', ...rest] = [...before, process.execPath, MAIN, ...args]
  const [marker = '', value] = TEST_MARKER.split('=')
  const child = spawn(program, rest, {
    env: { ...process.env, [marker]: value, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (chunk: string) => {
      output += chunk
    })
  }
  const { promise: finished, resolve, reject } = deferred<Finished>()
  child.on('error', reject).on('close', (code) => resolve({ code, output: output.trim() }))
  return { child, pid: child.pid ?? 0, output: () => output, finished }
}

/** Runs the command line of the product against a service, with its settings below `home`. */
export function runAgentweaver(
  args: readonly string[],
  { home, url, stdin }: { home: string; url: string; stdin?: string | undefined },
): Promise<Finished> {
  const child = spawn(process.execPath, [CLI, ...args], {
    env: {
      ...process.env,
      XDG_CONFIG_HOME: join(home, 'config'),
      XDG_STATE_HOME: join(home, 'state'),
      AGENTWEAVER_URL: url,
    },
    stdio: [stdin ? openSync(stdin, 'r') : 'ignore', 'pipe', 'pipe'],
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (chunk: string) => {
      output += chunk
    })
  }
  const { promise, resolve, reject } = deferred<Finished>()
  child.on('error', reject).on('close', (code) => resolve({ code, output }))
  return promise
}

export function runCommand(args: readonly string[], options?: CommandOptions): Promise<Finished> {
  return startCommand(args, options).finished
}

/** Waits until the output matches. Throws with the output when the command ends before that. */
export async function waitForWords(running: Running, words: RegExp, timeoutMs = 60_000): Promise<void> {
  await waitUntil({ what: `${words} in:\n${running.output()}`, timeoutMs }, () => {
    if (words.test(running.output())) return true
    return running.child.exitCode === null ? undefined : true
  })
  if (!words.test(running.output())) throw new Error(`the command ended first:\n${running.output()}`)
}

/** Waits until nothing is left of a cluster. The clean-up process may still be at work when the command has ended. */
export async function waitUntilClean(before: Machine, timeoutMs = 20_000): Promise<void> {
  const left = () => JSON.stringify(newSince(before))
  const wait = { what: 'the machine to be as it was', timeoutMs, everyMs: 100 }
  await waitUntil(wait, () => {
    if (left() === '{}') return true
    throw new Error(`left behind: ${left()}`)
  })
}
