import { type ChildProcess, spawn } from 'node:child_process'
import { join } from 'node:path'
import { deferred } from '../../../devcluster/deferred.ts'
import { waitUntil } from '../../../devcluster/host/wait-until.ts'
import { type Machine, newSince, TEST_MARKER } from './machine.ts'

const MAIN = join(import.meta.dirname, '..', '..', '..', 'devcluster', 'main.ts')

export interface Finished {
  readonly code: number | null
  readonly output: string
}

export interface CommandOptions {
  readonly env?: NodeJS.ProcessEnv
  /** Words before the program, for example another user's identity. */
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

export function runCommand(args: readonly string[], options?: CommandOptions): Promise<Finished> {
  return startCommand(args, options).finished
}

/** Waits until the output matches, and fails with the output if the command ends first. */
export async function waitForWords(running: Running, words: RegExp, timeoutMs = 60_000): Promise<void> {
  await waitUntil({ what: `${words} in:\n${running.output()}`, timeoutMs }, () => {
    if (words.test(running.output())) return true
    return running.child.exitCode === null ? undefined : true
  })
  if (!words.test(running.output())) throw new Error(`the command ended first:\n${running.output()}`)
}

/** Waits until the machine has returned to its earlier state. The clean-up process needs a moment. */
export async function waitUntilClean(before: Machine, timeoutMs = 20_000): Promise<void> {
  const left = () => JSON.stringify(newSince(before))
  const wait = { what: 'the machine to be as it was', timeoutMs, everyMs: 100 }
  await waitUntil(wait, () => {
    if (left() === '{}') return true
    throw new Error(`left behind: ${left()}`)
  })
}
