import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { basename, dirname } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import * as z from 'zod'
import { CLIENT_ENV_KEYS } from '../../contracts/api-env.ts'
import { type Client, createClient } from '../../runtime/client/client.ts'
import { deadline } from '../../runtime/kit/deadline.ts'
import type { EnvSource } from '../../runtime/kit/parse-env.ts'
import { openPrivateFolder } from '../../runtime/state-folder/private-folder.ts'
import { CliError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'

const SERVER = fileURLToPath(new URL('../../runtime/api/server.ts', import.meta.url))
/** The API always runs as a separate process. Node 22 prints a warning about its built-in SQLite, which is disabled. */
export const SERVER_COMMAND = [process.execPath, '--disable-warning=ExperimentalWarning', SERVER] as const
/** Long, because a machine that also runs a build may be slow. */
const START_TIMEOUT_MS = 120_000
/** On SIGTERM the service drains its runs. After this time it is killed. */
const STOP_TIMEOUT_MS = 15_000
const KEPT_LOG_CHARACTERS = 16_384

const Ready = z.object({ url: z.url(), socket: z.string(), apiKeyFile: z.string().optional(), pid: z.int() })
type Ready = z.infer<typeof Ready>

export interface ServiceProcess extends AsyncDisposable {
  /** Client over the service's socket. */
  readonly client: Client
  /** URL for programs, which need the key. */
  readonly url: string
  readonly apiKey: string
  readonly pid: number
  /** The last lines of the service's log. */
  readonly log: () => string
  /** Stops the service and waits for its exit. */
  stop(): Promise<void>
}

export interface ServiceOptions {
  readonly env: EnvSource
  /** Settings that override the environment. */
  readonly settings: Readonly<Record<string, string>>
  readonly cwd: string
  /** Called if the service ends before it is stopped, with its status and the last lines of its log. */
  readonly onDeath?: (how: string) => void
}

/** The caller's environment without the variables of the command line. */
function serviceEnv({ env, settings }: ServiceOptions): NodeJS.ProcessEnv {
  const kept = Object.entries(env).filter(([key]) => !CLIENT_ENV_KEYS.some((name) => name === key))
  return {
    AGENTWEAVER_LOG_LEVEL: 'warn',
    ...Object.fromEntries(kept),
    AGENTWEAVER_HOST: '127.0.0.1',
    AGENTWEAVER_PORT: '0',
    AGENTWEAVER_READY_FORMAT: 'json',
    AGENTWEAVER_LIFELINE: 'true',
    ...settings,
  }
}

/**
 * Starts the API for the lifetime of this process. It gets its own session, so that Ctrl-C reaches only the command. It
 * exits when its standard input closes, so that it cannot outlive the command.
 */
export async function spawnService(options: ServiceOptions): Promise<ServiceProcess> {
  const [node, ...argv] = SERVER_COMMAND
  const child = spawn(node, argv, {
    cwd: options.cwd,
    env: serviceEnv(options),
    stdio: 'pipe',
    detached: true,
  })
  const log = keepTail(child)
  let isServing = false
  const stop = () => {
    isServing = false
    return stopService(child)
  }
  child.once('exit', (code, signal) => {
    if (isServing) options.onDeath?.(`it ended with ${signal ?? `status ${code}`}\n${log.read()}`.trimEnd())
  })
  try {
    const ready = await deadline('the start of the service', START_TIMEOUT_MS, readReady(child, log))
    child.stdout.resume()
    isServing = true
    const apiKey = await readApiKey(ready)
    const client = createClient({ socketPath: ownSocket(ready), apiKey })
    const { url, pid } = ready
    return { client, url, apiKey, pid, log: log.read, stop, [Symbol.asyncDispose]: stop }
  } catch (error) {
    await stop()
    throw error
  }
}

async function readApiKey({ apiKeyFile }: Ready): Promise<string> {
  if (apiKeyFile !== undefined) return (await readFile(apiKeyFile, 'utf8')).trim()
  throw new CliError('The store has API keys, but the file with the first one is missing.', {
    status: EXIT.unauthenticated,
    hint: 'Start the service with "agentweaver serve", and give one of its keys with "agentweaver login --url".',
  })
}

/** The service's socket, below a folder that stays open so that it cannot be replaced. */
function ownSocket({ socket }: Ready): string {
  const folder = openPrivateFolder(dirname(socket))
  if (folder?.hasSocket(basename(socket))) return folder.at(basename(socket))
  throw new CliError(`The service has no socket at ${socket}.`, { status: EXIT.unreachable })
}

function keepTail(child: ChildProcessWithoutNullStreams): { read: () => string } {
  let tail = ''
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
    tail = (tail + chunk).slice(-KEPT_LOG_CHARACTERS)
  })
  child.stdin.on('error', () => undefined)
  return { read: () => tail.trim() }
}

async function readReady(child: ChildProcessWithoutNullStreams, log: { read: () => string }) {
  for await (const line of createInterface({ input: child.stdout })) {
    const ready = line.startsWith('{') ? Ready.safeParse(JSON.parse(line)) : undefined
    if (ready?.success) return ready.data
  }
  throw new CliError(`The service did not start.\n${log.read()}`.trimEnd(), { status: EXIT.unreachable })
}

async function stopService(child: ChildProcessWithoutNullStreams): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return
  const exited = once(child, 'exit')
  const kill = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS)
  child.stdin.end()
  child.kill('SIGTERM')
  await exited
  clearTimeout(kill)
}
