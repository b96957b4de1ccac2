import { ChildProcess } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { CopilotClient, RuntimeConnection } from '@github/copilot-sdk'
import { bestEffort } from '../../kit/best-effort.ts'
import { deadline } from '../../kit/deadline.ts'
import { messageOf, SandboxError } from '../../kit/errors.ts'
import type { Log } from '../../kit/log.ts'
import { sessionFsConfig } from './session-config.ts'

/** Time for an orderly stop, which takes about 0.3 s, and for a killed process to be reaped. */
const STOP_MS = 3000
const REAP_MS = 2000

/** The agent runtime as a child of this process, over its standard input and output. */
export interface RuntimeProcess {
  readonly client: CopilotClient
  /** The only folder that it is told of; it goes with the process. */
  readonly folder: string
  readonly hasExited: () => boolean
  /** Resolves when the process is gone. */
  readonly exited: Promise<void>
  /** Ends the process and waits until it is gone. Never throws. */
  stop(): Promise<void>
  /** Ends it at once, without a goodbye. */
  kill(): Promise<void>
}

type RuntimeOptions = {
  readonly stateDir: string
  readonly env: Readonly<Record<string, string>>
  readonly startMs: number
  readonly log: Log
}

/**
 * Starts the agent runtime with an environment of its own: nothing of this process's is passed on. Its home is a
 * new folder each time: hooks and MCP servers that lie in its home are run, whatever the session's settings say.
 */
export async function startRuntime({ stateDir, env, startMs, log }: RuntimeOptions): Promise<RuntimeProcess> {
  const folder = await mkdtemp(join(stateDir, 'agent-'))
  const removeFolder = () =>
    bestEffort(log, 'remove the folder of the agent runtime', () =>
      rm(folder, { recursive: true, force: true }),
    )
  const client = new CopilotClient({
    mode: 'empty',
    useLoggedInUser: false,
    connection: RuntimeConnection.forStdio({ env: { ...env, HOME: folder, TMPDIR: folder } }),
    baseDirectory: folder,
    workingDirectory: folder,
    sessionFs: sessionFsConfig(folder),
    logLevel: 'none',
  })
  try {
    await deadline('starting the agent runtime', startMs, client.start())
    return watch({ client, folder, removeFolder, child: childOf(client), log })
  } catch (error) {
    await client.forceStop()
    await removeFolder()
    throw notStarted(error)
  }
}

const notStarted = (cause: unknown) =>
  new SandboxError('configure_failed', `The agent runtime could not be started: ${messageOf(cause)}`, {
    cause,
  })

/** The SDK keeps its child to itself, and gives up on one that does not end: it must be known to be ended. */
function childOf(client: CopilotClient): ChildProcess {
  const child: unknown = Reflect.get(client, 'cliProcess')
  if (child instanceof ChildProcess) return child
  throw new SandboxError('internal', 'the agent SDK does not show the process that it started')
}

type Started = {
  readonly client: CopilotClient
  readonly child: ChildProcess
  readonly folder: string
  readonly removeFolder: () => Promise<void>
  readonly log: Log
}

function watch({ client, child, folder, removeFolder, log }: Started): RuntimeProcess {
  const hasExited = () => child.exitCode !== null || child.signalCode !== null
  const exited = new Promise<void>((resolve) => {
    if (hasExited()) resolve()
    else child.once('exit', () => resolve())
  })
  const kill = async () => {
    if (!hasExited()) child.kill('SIGKILL')
    await bestEffort(log, 'let go of the agent runtime', () => client.forceStop())
    await bestEffort(log, 'see the agent runtime end', () =>
      deadline('the end of the agent runtime', REAP_MS, exited),
    )
    await removeFolder()
  }
  const stop = async () => {
    await bestEffort(log, 'stop the agent runtime in good order', () =>
      deadline('stopping the agent runtime', STOP_MS, client.stop()),
    )
    await kill()
  }
  return { client, folder, hasExited, exited, stop, kill }
}
