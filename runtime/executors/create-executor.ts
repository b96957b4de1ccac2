import type { ExecRequest, ExecResult, Isolation, WorkspaceUsage } from '../../contracts/exec.ts'
import type { ExecIo } from '../../contracts/toolbox.ts'
import { bestEffort } from '../kit/best-effort.ts'
import { messageOf } from '../kit/errors.ts'
import type { Log } from '../kit/log.ts'
import type { CommandRights, Executor } from './executor.ts'
import { inheritedDescriptors } from './process/inherited-descriptors.ts'
import { type Launch, notStarted, supervise } from './process/supervise.ts'
import { WorkspaceFull, type WorkspaceLimits, WorkspaceUse } from './process/workspace-use.ts'
import { containedPath } from './rootfs/request-mounts.ts'

/** One command to start. */
export interface Order {
  readonly request: ExecRequest
  /** A path below the workspace. */
  readonly directory: string
  readonly rights: CommandRights
}

interface ExecutorParts {
  readonly isolation: Isolation
  readonly hasSyscallFilter: boolean
  /** Builds the launch of a command. */
  readonly launch: (order: Order) => Promise<Launch | { problem: string }>
  /** Folders of the host that commands can write: the workspace, and what the layout mounts into it. */
  readonly writable: readonly string[]
  /** Size of the workspace's volume. @default the request alone limits it */
  readonly volumeBytes?: number | undefined
  /** Called when the use of the workspace reaches another level. */
  readonly onUsage?: ((usage: WorkspaceUsage) => void) | undefined
  /** Deletes the backend's files. */
  readonly remove: () => Promise<void>
  readonly log: Log
}

interface Watched {
  readonly io: ExecIo
  readonly limits: WorkspaceLimits
}

/** Creates an executor from a backend's `launch` function. Everything else is the same for all backends. */
export function createExecutor(parts: ExecutorParts): Executor {
  const { isolation, hasSyscallFilter, launch, remove, log, volumeBytes = Number.POSITIVE_INFINITY } = parts
  const use = new WorkspaceUse(parts.writable, parts.onUsage)
  const closing = new AbortController()
  const inherited = inheritedDescriptors()
  const running = new Set<Promise<unknown>>()

  async function run(request: ExecRequest, io: ExecIo, rights: CommandRights): Promise<ExecResult> {
    const directory = containedPath(request.directory)
    if (directory === undefined)
      return notStarted(
        'spawn_failed',
        `the working directory ${request.directory} leads out of the workspace`,
      )
    const limits = limitsOf(request, volumeBytes)
    const fullBefore = await use.begin(limits)
    if (fullBefore?.mayRun === false)
      return notStarted('workspace_full', `The command was not started, because ${fullBefore.why} ${GREW}`)
    const ordered = fullBefore === undefined ? request : withoutGrowth(request)
    const planned = await launch({ request: ordered, directory, rights }).catch((error) => ({
      problem: messageOf(error),
    }))
    if ('problem' in planned) return notStarted('spawn_failed', planned.problem)
    const result = await runWatched({ ...planned, inherited }, request, { io, limits })
    return fullBefore === undefined ? result : withReason(result, fullBefore.why)
  }

  /** Runs a command, and stops it if it fills the workspace. */
  async function runWatched(
    launch: Launch,
    request: ExecRequest,
    { io, limits }: Watched,
  ): Promise<ExecResult> {
    const full = new AbortController()
    const stopWatching = use.watch(limits, (why) => full.abort(new WorkspaceFull(why)))
    const signals = [closing.signal, full.signal, ...(io.signal ? [io.signal] : [])]
    try {
      return await supervise(launch, request, { ...io, signal: AbortSignal.any(signals) })
    } finally {
      stopWatching()
    }
  }

  return {
    isolation,
    hasSyscallFilter,
    run(request, io, rights = {}) {
      const work = run(request, io, rights)
      running.add(work)
      const done = () => running.delete(work)
      work.then(done, done)
      return work
    },
    async close() {
      closing.abort()
      await Promise.allSettled(running)
      await use.close()
      await bestEffort(log, 'remove the sandbox skeleton', remove)
    },
  }
}

const limitsOf = (
  { maxWorkspaceBytes, maxWorkspaceFiles }: ExecRequest,
  volumeBytes: number,
): WorkspaceLimits => ({
  bytes: Math.min(maxWorkspaceBytes, Math.floor(volumeBytes)),
  files: maxWorkspaceFiles,
  isOfVolume: volumeBytes < maxWorkspaceBytes,
})

/**
 * Lets the command delete files, and not write to one. Programs get EFBIG; without the trap, SIGXFSZ (25) would kill them. One
 * line, so that the line numbers in messages of the shell stay the same.
 */
const withoutGrowth = (request: ExecRequest): ExecRequest => ({
  ...request,
  command: `trap '' 25; ulimit -f 0; ${request.command}`,
})

const GREW =
  'Since then, too many files, folders or links were added. Delete files with the file tools or in the folder itself, and try again.'

function withReason(result: ExecResult, full: string): ExecResult {
  const reason = `The command could not write to files, because ${full}`
  return { ...result, message: result.message === undefined ? reason : `${result.message} ${reason}` }
}
