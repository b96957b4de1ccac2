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
/** Starts the API, which is always a process: the command never loads it. Node 22 warns of the SQLite that it has. */
export const SERVER_COMMAND = [process.execPath, '--disable-warning=ExperimentalWarning', SERVER] as const
/** A machine that is busy with a build as well may need most of it. */
const START_TIMEOUT_MS = 120_000
/** The service drains its runs when it is told to stop; after this it is killed. */
const STOP_TIMEOUT_MS = 15_000
const KEPT_LOG_CHARACTERS = 16_384

const Ready = z.object({ url: z.url(), socket: z.string(), apiKeyFile: z.string().optional(), pid: z.int() })
type Ready = z.infer<typeof Ready>

export interface ServiceProcess extends AsyncDisposable {
  /** Over the service's socket. */
  readonly client: Client
  /** Where programs reach it, with the key. */
  readonly url: string
  readonly apiKey: string
  readonly pid: number
  /** The end of what the service logged, for people who look for a cause. */
  readonly log: () => string
  /** Stops the service and waits until it is gone. */
  stop(): Promise<void>
}

export interface ServiceOptions {
  readonly env: EnvSource
  /** Settings that win over those of the environment. */
  readonly settings: Readonly<Record<string, string>>
  readonly cwd: string
  /** Told when the service ends before it was stopped, with how and with the end of its log. */
  readonly onDeath?: (how: string) => void
}

/** The service's environment: the caller's, without what only clients read. */
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
 * Starts the API for as long as this process lives. It gets a session of its own, so that Ctrl-C at the
 * terminal reaches the command alone; its standard input is its lifeline, so that it ends with the command
 * whatever happens.
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
  throw new CliError('The store has API keys of its own, and the file of the first one is gone.', {
    status: EXIT.unauthenticated,
    hint: 'Start the service with "agentweaver serve", and give one of its keys with "agentweaver login --url".',
  })
}

/** The socket of the service, in a folder that stays open so that nothing can take its place. */
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
