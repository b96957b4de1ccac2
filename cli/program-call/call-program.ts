import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import type { Readable } from 'node:stream'
import { CliError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'
import { onInterrupt } from '../terminal/interrupts.ts'
import type { CliIo } from '../terminal/terminal.ts'

export interface Called {
  readonly status: number
  readonly stdout: string
  readonly stderr: string
}

export interface Call {
  readonly program: string
  /** Arguments of the program. No shell interprets them. */
  readonly args: readonly string[]
  /** @default 30 minutes, longer than the creation of a cluster takes */
  readonly timeoutMs?: number
  /** Additional variables for the environment. */
  readonly env?: Readonly<Record<string, string>>
  /** A file that becomes the program's standard input. @default none */
  readonly inputFile?: string
  /** Called with each chunk of the program's output. */
  readonly onOutput?: (chunk: string) => void
}

/** Runs a program and returns its status and output. Throws only if it cannot start, is killed, or times out. */
export type CallProgram = (call: Call) => Promise<Called>

const DEFAULT_TIMEOUT_MS = 30 * 60_000
/** Output limit. The exported state of a large Pulumi stack has some MiB. */
const MAX_CHARACTERS = 64 * 1_048_576

/** Where to install a missing program from. */
const WHERE: Readonly<Record<string, string>> = {
  pulumi: 'Install the Pulumi CLI, 3.250 or later: https://www.pulumi.com/docs/install/',
  kubectl: 'Install kubectl: https://kubernetes.io/docs/tasks/tools/',
  az: 'Install the Azure CLI: https://learn.microsoft.com/cli/azure/install-azure-cli',
}

export const createCallProgram =
  ({ cwd, env }: Pick<CliIo, 'cwd' | 'env'>): CallProgram =>
  ({ program, args, timeoutMs = DEFAULT_TIMEOUT_MS, env: more, inputFile, onOutput }) =>
    new Promise((resolve, reject) => {
      const input = inputFile === undefined ? undefined : openSync(inputFile, 'r')
      const child = spawn(program, args, {
        cwd,
        env: { ...env, ...more, AGENTWEAVER_API_KEY: undefined },
        stdio: [input ?? 'ignore', 'pipe', 'pipe'],
        signal: AbortSignal.timeout(timeoutMs),
      }) as ChildProcessByStdio<null, Readable, Readable>
      if (input !== undefined) closeSync(input)
      // Ctrl-C reaches the whole process group. A second signal would make Pulumi stop in the middle of its work, so this
      // process does not forward SIGINT and waits until the program exits.
      const interrupts = onInterrupt((signal) => {
        if (signal !== 'SIGINT') child.kill(signal)
      })
      const said = { stdout: '', stderr: '' }
      for (const stream of ['stdout', 'stderr'] as const)
        child[stream].setEncoding('utf8').on('data', (chunk: string) => {
          onOutput?.(chunk)
          said[stream] += chunk
          if (said[stream].length > MAX_CHARACTERS) child.kill('SIGKILL')
        })
      child.on('error', (cause: NodeJS.ErrnoException) => {
        interrupts[Symbol.dispose]()
        if (cause.name === 'AbortError') reject(killed(program, args, 'its deadline'))
        else reject(cause.code === 'ENOENT' ? absent(program, cause) : cause)
      })
      child.on('close', (status, signal) => {
        interrupts[Symbol.dispose]()
        if (status === null) reject(killed(program, args, signal))
        else resolve({ status, ...said })
      })
    })

const absent = (program: string, cause: Error) =>
  new CliError(`${program} is not on the PATH.`, {
    status: EXIT.unreachable,
    cause,
    ...(WHERE[program] === undefined ? {} : { hint: WHERE[program] }),
  })

const killed = (program: string, args: readonly string[], signal: string | null) =>
  new CliError(`${program} ${args.slice(0, 2).join(' ')} was ended by ${signal ?? 'a signal'}.`, {
    status: EXIT.runFailed,
    hint: 'It took too long or printed too much. Run it again; it continues from its own state.',
  })
