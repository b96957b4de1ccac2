import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { AgentHostEnvInput } from '../../../contracts/agent-host-env.ts'
import type { BackendName } from '../../../contracts/backends.ts'
import { EGRESS_SOCKET } from '../../../contracts/egress.ts'
import type { HostRoot } from '../../../contracts/paths.ts'
import { deadline } from '../../kit/deadline.ts'
import { SandboxError } from '../../kit/errors.ts'
import type { Log } from '../../kit/log.ts'
import { startTimeOf } from '../../kit/start-time.ts'
import { killGroup } from './process-group.ts'
import { makeSandboxFolder, removeSandboxFolder, type SandboxFolder } from './sandbox-folder.ts'

const SERVER = fileURLToPath(new URL('../../agent-host/server.ts', import.meta.url))

/** Generous: a busy laptop can take seconds to start two Node processes. */
const STANDBY_TIMEOUT_MS = 30_000

/** How long AgentHost may take to exit after its stdin is closed. */
const LEAVE_TIMEOUT_MS = 2_000

export type HostProcessOptions = {
  readonly jwksFile: string
  readonly backend: BackendName
  readonly toolRoots: readonly string[]
  /**
   * Folders outside the workspace that commands may read, as the operator allows. Fixed before the sandbox knows its run,
   * so that no repository or agent can extend it.
   * @default none
   */
  readonly hostRoots?: readonly HostRoot[]
  readonly logLevel: NonNullable<AgentHostEnvInput['AGENT_HOST_LOG_LEVEL']>
  readonly log: Log
  /**
   * Path of AgentHost's program.
   * @default `agent-host/server.ts` of this source tree
   */
  readonly entry?: string | undefined
}

/** The data with which a later process cleans up after this one. */
export type HostHandle = { readonly directory: string; readonly pid: number; readonly startTime: string }

/** One AgentHost process in standby, in a private folder. */
export type HostProcess = {
  readonly instanceId: string
  readonly directory: string
  readonly socketPath: string
  readonly workspace: string
  /** Where its commands look for the egress proxy. */
  readonly egressSocket: string
  readonly handle: HostHandle
  /** Resolves with the exit reason when the process has ended. */
  readonly exited: Promise<string>
  /** Ends the process and its children, and removes its folder. */
  destroy(): Promise<void>
}

/** Starts an AgentHost and waits until it is in standby. Its folder is 0700, so only this user reaches its socket. */
export async function startHostProcess(options: HostProcessOptions): Promise<HostProcess> {
  const folder = await makeSandboxFolder()
  try {
    return await startIn(folder, options)
  } catch (error) {
    await removeSandboxFolder(folder.directory)
    throw error
  }
}

async function startIn(folder: SandboxFolder, options: HostProcessOptions): Promise<HostProcess> {
  const { log } = options
  const { directory, socketPath, workspace } = folder
  const egressSocket = join(folder.egressFolder, EGRESS_SOCKET.name)
  const instanceId = randomUUID()
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', options.entry ?? SERVER], {
    cwd: directory,
    detached: true,
    stdio: ['pipe', 'pipe', 'pipe'],
    env: environmentOf({ ...folder, instanceId }, options),
  })
  const exited = once(child, 'exit').then(
    ([code, signal]) => `the AgentHost ended with ${signal ?? `exit code ${code}`}`,
  )
  child.on('error', (error) => log.error('the AgentHost could not be started', { error }))
  createInterface({ input: child.stderr }).on('line', (line) => log.debug('agent-host', { instanceId, line }))

  const destroy = async () => {
    await stop(child, exited)
    await removeSandboxFolder(directory)
  }
  try {
    await deadline('the start of an AgentHost', STANDBY_TIMEOUT_MS, untilStandby(child, exited))
  } catch (error) {
    await destroy()
    throw error
  }
  const pid = child.pid ?? 0
  const handle = { directory, pid, startTime: startTimeOf(pid) ?? '' }
  return { instanceId, directory, socketPath, workspace, egressSocket, handle, exited, destroy }
}

type Place = SandboxFolder & { readonly instanceId: string }

function environmentOf(place: Place, options: HostProcessOptions): NodeJS.ProcessEnv {
  const env = {
    AGENT_HOST_INSTANCE_ID: place.instanceId,
    AGENT_HOST_SOCKET: place.socketPath,
    AGENT_HOST_JWKS_FILE: options.jwksFile,
    AGENT_HOST_RUNNER_BACKEND: options.backend,
    AGENT_HOST_RUNNER_TOOL_ROOTS: JSON.stringify(options.toolRoots),
    AGENT_HOST_RUNNER_HOST_ROOTS: JSON.stringify(options.hostRoots ?? []),
    AGENT_HOST_RUNNER_EGRESS_FOLDER: place.egressFolder,
    AGENT_HOST_STATE_DIR: place.stateDir,
    AGENT_HOST_LOG_LEVEL: options.logLevel,
    AGENT_HOST_LIFELINE: 'true',
  } satisfies AgentHostEnvInput
  // The service's environment is not inherited: it may hold the operator's secrets.
  return {
    ...env,
    PATH: '/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin',
    HOME: place.directory,
    TMPDIR: place.stateDir,
    LANG: 'C.UTF-8',
  }
}

/** AgentHost prints one line when its runner is connected and it can be configured. */
async function untilStandby(child: ChildProcess, exited: Promise<string>): Promise<void> {
  const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream })
  const standby = once(lines, 'line')
  const ended = exited.then((how) => {
    // Reported as a lost sandbox, so that the run gets another one.
    throw new SandboxError('sandbox_lost', `${how} before it was in standby`)
  })
  await Promise.race([standby, ended])
}

async function stop(child: ChildProcess, exited: Promise<string>): Promise<void> {
  if (child.pid === undefined) return
  child.stdin?.end()
  const left = await Promise.race([
    exited.then(() => true),
    new Promise((resolve) => setTimeout(resolve, LEAVE_TIMEOUT_MS, false).unref()),
  ])
  killGroup(child.pid)
  if (!left) await exited
}
