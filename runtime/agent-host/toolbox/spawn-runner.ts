import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { Duplex } from 'node:stream'
import { fileURLToPath } from 'node:url'
import type { BackendName } from '../../../contracts/backends.ts'
import type { HostRoot } from '../../../contracts/paths.ts'
import { bestEffort } from '../../kit/best-effort.ts'
import { deadline } from '../../kit/deadline.ts'
import { messageOf, SandboxError } from '../../kit/errors.ts'
import type { Log } from '../../kit/log.ts'
import { connectToolbox } from './connect-toolbox.ts'
import type { RunnerLink } from './runner-link.ts'

const SERVER = fileURLToPath(new URL('../../runner/server.ts', import.meta.url))
/** The first descriptor after the standard ones. */
const SOCKET_FD = 3
/** Where the system's own programs lie: what isolates commands must not come from a folder that a user can write. */
const SYSTEM_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
/** A runner that is told to end kills its commands first. */
const EXIT_TIMEOUT_MS = 5000
const KEPT_LINES = 20
/** A command of a killed runner may write for a moment longer. */
const REMOVAL = { recursive: true, force: true, maxRetries: 5, retryDelay: 50 }

export interface SpawnRunnerOptions {
  readonly backend: BackendName
  readonly toolRoots: readonly string[]
  /**
   * The operator's ceiling of the folders that commands may read outside the workspace.
   * @default none
   */
  readonly hostRoots?: readonly HostRoot[]
  readonly log: Log
  /**
   * The runner's program.
   * @default the one beside this code
   */
  readonly entry?: string
}

/**
 * Starts a runner as a child over an inherited socket pair, which is the lifeline of both: when either end goes,
 * the other does. The child gets no environment but its own settings, and a folder for its temporary files.
 * Whichever end survives removes that.
 */
export async function spawnRunner(options: SpawnRunnerOptions): Promise<RunnerLink> {
  const temporary = await mkdtemp(join(tmpdir(), 'agentweaver-runner-'))
  const child = spawn(process.execPath, [options.entry ?? SERVER], {
    stdio: ['ignore', 'ignore', 'pipe', 'pipe'],
    // A session of its own: a signal for the terminal's group must not end it in the middle of a command.
    detached: true,
    env: {
      PATH: SYSTEM_PATH,
      AGENTWEAVER_RUNNER_FD: String(SOCKET_FD),
      AGENTWEAVER_RUNNER_TEMP: temporary,
      AGENTWEAVER_RUNNER_BACKEND: options.backend,
      AGENTWEAVER_RUNNER_TOOL_ROOTS: JSON.stringify(options.toolRoots),
      AGENTWEAVER_RUNNER_HOST_ROOTS: JSON.stringify(options.hostRoots ?? []),
    },
  })
  const exited = exitOf(child).then(() =>
    bestEffort(options.log, "remove the runner's files", () => rm(temporary, REMOVAL)),
  )
  const lastLines = followLog(child, options.log)
  try {
    const link = await connectToolbox(socketOf(child))
    void link.closed.then(() => ensureExit(child, exited))
    return { ...link, close: () => closeBoth(link, child, exited) }
  } catch (error) {
    await ensureExit(child, exited)
    const said = lastLines.join('\n') || messageOf(error)
    throw startFailure(error, `the runner did not start: ${said}`)
  }
}

const startFailure = (cause: unknown, message: string): SandboxError =>
  new SandboxError('isolation_unavailable', message, { cause })

async function closeBoth(link: RunnerLink, child: ChildProcess, exited: Promise<void>): Promise<void> {
  await link.close()
  await ensureExit(child, exited)
}

/** Settles when the process is gone, or never came to be. */
function exitOf(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    child.once('exit', () => resolve())
    child.once('error', () => resolve())
  })
}

function socketOf(child: ChildProcess): Duplex {
  const socket = child.stdio[SOCKET_FD]
  if (socket instanceof Duplex) return socket
  throw new SandboxError('isolation_unavailable', 'the runner process could not be started')
}

async function ensureExit(child: ChildProcess, exited: Promise<void>): Promise<void> {
  try {
    await deadline('the runner to exit', EXIT_TIMEOUT_MS, exited)
  } catch {
    child.kill('SIGKILL')
    await exited
  }
}

/** Passes the runner's log on, and keeps its last lines for the case that it does not come up. */
function followLog(child: ChildProcess, log: Log): readonly string[] {
  const kept: string[] = []
  if (!child.stderr) return kept
  createInterface({ input: child.stderr }).on('line', (line) => {
    log.info('runner', { line })
    kept.push(line)
    if (kept.length > KEPT_LINES) kept.shift()
  })
  return kept
}
