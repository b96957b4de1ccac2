import type { ChildProcess } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { CopilotClient, type CopilotRequestHandler, RuntimeConnection } from '@github/copilot-sdk'
import { bestEffort } from '../../kit/best-effort.ts'
import { deadline } from '../../kit/deadline.ts'
import { messageOf, SandboxError } from '../../kit/errors.ts'
import type { Log } from '../../kit/log.ts'
import { present } from '../../kit/present.ts'
import { watchInternals } from './sdk-internals.ts'
import { sessionFsConfig } from './session-config.ts'

/** Time limits for an orderly stop, which takes about 0.3 s, and for the end of a killed process. */
const STOP_MS = 3000
const REAP_MS = 2000

/** The agent runtime as a child process, connected by its standard input and output. */
export interface RuntimeProcess {
  readonly client: CopilotClient
  /** The only folder that the runtime knows. It is deleted with the process. */
  readonly folder: string
  readonly hasExited: () => boolean
  /** Rejects if the process exits before `work` settles, because requests to a dead process never settle. */
  readonly orExit: <T>(work: Promise<T>) => Promise<T>
  /** Stops the process and waits for its exit. Never throws. */
  stop(): Promise<void>
  /** Kills the process at once. */
  kill(): Promise<void>
}

export type RuntimeOptions = {
  readonly stateDir: string
  readonly env: Readonly<Record<string, string>>
  readonly startMs: number
  /** Sends the requests to the model until the signal is aborted. @default the agent runtime sends them itself */
  readonly requestHandler?: ((gone: AbortSignal) => CopilotRequestHandler) | undefined
  readonly log: Log
}

/**
 * Starts the agent runtime with a minimal environment. Its home is a new folder each time, because the runtime executes
 * hooks and MCP servers found in its home, even if the session's settings turn them off.
 */
export async function startRuntime(options: RuntimeOptions): Promise<RuntimeProcess> {
  const folder = await mkdtemp(join(options.stateDir, 'agent-'))
  const gone = new AbortController()
  const client = new CopilotClient({
    mode: 'empty',
    useLoggedInUser: false,
    connection: RuntimeConnection.forStdio({ env: { ...options.env, HOME: folder, TMPDIR: folder } }),
    baseDirectory: folder,
    workingDirectory: folder,
    sessionFs: sessionFsConfig(folder),
    logLevel: 'none',
    ...present({ requestHandler: options.requestHandler?.(gone.signal) }),
  })
  const runtime = watch({ client, folder, log: options.log, onGone: () => gone.abort() })
  try {
    await deadline('starting the agent runtime', options.startMs, runtime.orExit(client.start()))
    return runtime
  } catch (error) {
    await runtime.kill()
    throw notStarted(error)
  }
}

const notStarted = (cause: unknown) =>
  new SandboxError('configure_failed', `The agent runtime could not be started: ${messageOf(cause)}`, {
    cause,
  })

type Started = {
  readonly client: CopilotClient
  readonly folder: string
  readonly log: Log
  /** Called when the process is stopped or has ended, at least once. */
  readonly onGone: () => void
}

function watch({ client, folder, log, onGone }: Started): RuntimeProcess {
  const { spawned } = watchInternals(client)
  let child: ChildProcess | undefined
  let isGone = false
  const exited = spawned.then(async (process) => {
    child = process
    await ended(process)
    isGone = true
    onGone()
  })
  const gone = exited.then(() => Promise.reject(new Error('the agent runtime ended unexpectedly')))
  gone.catch(() => undefined)

  const kill = async () => {
    onGone()
    child?.kill('SIGKILL')
    await bestEffort(log, 'force the agent runtime to stop', () => client.forceStop())
    if (child !== undefined) {
      await bestEffort(log, 'wait for the end of the agent runtime', () =>
        deadline('the end of the agent runtime', REAP_MS, exited),
      )
    }
    await bestEffort(log, 'remove the folder of the agent runtime', () =>
      rm(folder, { recursive: true, force: true }),
    )
  }
  const stop = async () => {
    await bestEffort(log, 'stop the agent runtime', () =>
      deadline('stopping the agent runtime', STOP_MS, Promise.race([client.stop(), exited])),
    )
    await kill()
  }
  return {
    client,
    folder,
    hasExited: () => isGone,
    orExit: (work) => Promise.race([work, gone]),
    stop,
    kill,
  }
}

/** A process that could not be started emits `error` and no `exit`. */
const ended = (child: ChildProcess): Promise<void> =>
  new Promise((resolve) => {
    child.once('exit', () => resolve())
    child.once('error', () => resolve())
  })
