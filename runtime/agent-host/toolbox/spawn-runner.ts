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
import { present } from '../../kit/present.ts'
import { connectToolbox } from './connect-toolbox.ts'
import type { RunnerLink } from './runner-link.ts'

const SERVER = fileURLToPath(new URL('../../runner/server.ts', import.meta.url))
/** The first descriptor after the standard ones. */
const SOCKET_FD = 3
/** Only system folders: the isolation program must not come from a folder that the user can write. */
const SYSTEM_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
/** The runner kills its commands before it exits. */
const EXIT_TIMEOUT_MS = 5000
const KEPT_LINES = 20
/** A command of a killed runner may still write for a moment, so the removal is retried. */
const REMOVAL = { recursive: true, force: true, maxRetries: 5, retryDelay: 50 }

export interface SpawnRunnerOptions {
  readonly backend: BackendName
  readonly toolRoots: readonly string[]
  /**
   * Folders outside the workspace that commands may read, as the operator allows.
   * @default none
   */
  readonly hostRoots?: readonly HostRoot[]
  /** The folder of the egress proxy's socket. @default commands have no network access */
  readonly egressFolder?: string | undefined
  readonly log: Log
  /**
   * Path of the runner's program.
   * @default `runner/server.ts` of this source tree
   */
  readonly entry?: string
}

/**
 * Starts a runner as a child process over an inherited socket pair. When one side exits, the socket closes and the other
 * side exits too. The child's environment holds only its own settings. The surviving side removes the child's folder
 * for temporary files.
 */
export async function spawnRunner(options: SpawnRunnerOptions): Promise<RunnerLink> {
  const temporary = await mkdtemp(join(tmpdir(), 'agentweaver-runner-'))
  const child = spawn(process.execPath, [options.entry ?? SERVER], {
    stdio: ['ignore', 'ignore', 'pipe', 'pipe'],
    // In its own session, so that Ctrl+C in the terminal does not end it in the middle of a command.
    detached: true,
    env: {
      PATH: SYSTEM_PATH,
      AGENTWEAVER_RUNNER_FD: String(SOCKET_FD),
      AGENTWEAVER_RUNNER_TEMP: temporary,
      AGENTWEAVER_RUNNER_BACKEND: options.backend,
      AGENTWEAVER_RUNNER_TOOL_ROOTS: JSON.stringify(options.toolRoots),
      AGENTWEAVER_RUNNER_HOST_ROOTS: JSON.stringify(options.hostRoots ?? []),
      ...present({ AGENTWEAVER_RUNNER_EGRESS_FOLDER: options.egressFolder }),
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

/** Resolves when the process has exited or could not be started. */
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

/** Forwards the runner's log, and keeps the last lines for the error if the runner does not start. */
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
