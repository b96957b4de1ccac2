import { type ChildProcess, spawn } from 'node:child_process'
import { createWriteStream, readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { delay } from '../../../runtime/kit/deadline.ts'

export type ReplicaOptions = {
  readonly name: string
  readonly program: string
  readonly port: number
  readonly logFile: string
  readonly env: Readonly<Record<string, string>>
  /** Arguments of Node before the program. */
  readonly nodeArguments?: readonly string[]
  /** Called if the process ends by itself. */
  readonly onUnasked: (how: string) => void
}

export type Replica = Awaited<ReturnType<typeof startReplica>>

const START_DEADLINE_MS = 90_000
const RETRY_START_MS = 500

/**
 * One process of the service, which is started again after each end, as a supervisor does. Clients reach it at the same
 * port all the time.
 */
export async function startReplica(options: ReplicaOptions) {
  let child: ChildProcess | undefined
  /** An end that a fault or this program has caused. */
  let isAsked = false
  let isClosed = false
  let starting = Promise.resolve()
  const log = createWriteStream(options.logFile, { flags: 'a' })

  async function spawnOnce(): Promise<boolean> {
    isAsked = false
    const started = spawn(process.execPath, [...(options.nodeArguments ?? []), options.program], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { PATH: process.env['PATH'], ...options.env, AGENTWEAVER_PORT: String(options.port) },
    })
    child = started
    started.stderr.on('data', (chunk) => log.write(chunk))
    const ended = new Promise<string>((resolve) =>
      started.once('exit', (code, by) => resolve(by ?? `exit code ${code}`)),
    )
    const lines = createInterface({ input: started.stdout })
    const isReady = await Promise.race([
      new Promise<boolean>((resolve) => lines.once('line', () => resolve(true))),
      ended.then(() => false),
    ])
    if (isReady)
      void ended.then((how) => {
        if (!isAsked && child === started) options.onUnasked(`${options.name} ended by itself: ${how}`)
      })
    return isReady
  }

  /** Starts it until it serves: while the database is away, the process ends with an error. */
  async function start(): Promise<void> {
    const giveUpAt = Date.now() + START_DEADLINE_MS
    while (!isClosed && !(await spawnOnce())) {
      if (Date.now() > giveUpAt) return options.onUnasked(`${options.name} does not start`)
      await delay(RETRY_START_MS)
    }
  }

  const end = async (
    name: NodeJS.Signals,
  ): Promise<{ readonly code: number | null; readonly ms: number }> => {
    isAsked = true
    const current = child
    if (!current || current.exitCode !== null || current.signalCode !== null) return { code: null, ms: 0 }
    const startedAt = performance.now()
    const ended = new Promise<number | null>((resolve) => current.once('exit', (code) => resolve(code)))
    // A stopped process would keep a SIGTERM for later.
    current.kill('SIGCONT')
    current.kill(name)
    return { code: await ended, ms: performance.now() - startedAt }
  }

  const replica = {
    name: options.name,
    url: `http://127.0.0.1:${options.port}`,
    pid: () => child?.pid ?? 0,
    /** Ends the process and starts the next one. Several ends follow one another: two starts would be two processes. */
    async endAndStart(name: NodeJS.Signals, restartAfterMs: number): Promise<void> {
      const endOnce = async () => {
        await end(name)
        await delay(restartAfterMs)
        await start()
      }
      starting = starting.then(endOnce)
      await starting
    },
    /** Kills the process at once. `endAndStart` starts the next one. */
    strike(): void {
      isAsked = true
      child?.kill('SIGKILL')
    },
    /** The end of the round. */
    async close(): Promise<{ readonly code: number | null; readonly ms: number }> {
      await starting
      isClosed = true
      const ended = await end('SIGTERM')
      log.end()
      return ended
    },
    async kill(): Promise<void> {
      isClosed = true
      await end('SIGKILL')
      log.end()
    },
    logText: () => readFileSync(options.logFile, 'utf8'),
  }
  await start()
  return replica
}
