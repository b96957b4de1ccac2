import { randomUUID } from 'node:crypto'
import { closeSync, constants, openSync, readlinkSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { ExecRequest, Isolation } from '../../contracts/exec.ts'
import { commandShell } from './command-shell.ts'
import { createExecutor, type Order } from './create-executor.ts'
import type { Backend, Executor, ExecutorOptions } from './executor.ts'
import { OrphanReaper, type OrphanReaperOptions } from './process/orphan-reaper.ts'
import type { Program, StartedProgram } from './process/start.ts'
import type { Launch } from './process/supervise.ts'
import { isWithin } from './rootfs/mounts.ts'
import { baseEnvironment } from './rootfs/system-mounts.ts'

/** Environment variable that identifies processes of a command that left its process group. */
const MARKER = 'AGENTWEAVER_COMMAND_ID'

/** Not in Node's constants. The value is the same on all architectures that Node supports. */
const O_PATH = 0o10_000_000

export interface PodBackendOptions extends OrphanReaperOptions {
  /** Starts a program in an open folder, with the limits and the filter of this process. */
  readonly start: (program: Program & { readonly folder: number }) => StartedProgram
  readonly isolation: Isolation
  readonly home: string
  /** How much commands may write to the workspace, because of the size of its volume. @default the requests alone limit it */
  readonly workspaceBytes?: number | undefined
  /** How commands with network access reach it. Absent if network policies alone decide what they reach. */
  readonly networkEnvironment?: (
    environment: Readonly<Record<string, string>>,
  ) => Readonly<Record<string, string>>
}

/**
 * Runs commands as processes in a pod's toolbox container; the pod provides the isolation. Commands are
 * children of the process that runs this backend. That process must be a child subreaper, so that every process
 * a command leaves behind is found. It must also have applied the limits that commands inherit, and a filter
 * that blocks their signals to it.
 */
export function createPodBackend(options: PodBackendOptions): Backend {
  return {
    name: 'kubernetes-sandbox-claim',
    create: async (given) => createPodExecutor(given, options),
    detect: async () => ({ ok: true, isolation: options.isolation, warnings: [] }),
  }
}

function createPodExecutor(given: ExecutorOptions, options: PodBackendOptions): Executor {
  const { workspace, onUsage, log } = given
  const { start } = options
  const env = baseEnvironment([], options.home)
  const orphanReaper = new OrphanReaper(options)
  const shell = commandShell()
  const launch = async (order: Order): Promise<Launch | { problem: string }> => {
    const { request, directory } = order
    const problem = unkept(request)
    if (problem !== undefined) return { problem }
    const id = randomUUID()
    const own = { ...env, ...request.environment }
    const marker = `${MARKER}=${id}`
    orphanReaper.begin(marker)
    return {
      file: shell.file,
      args: [...shell.args, request.command, shell.nameArgument],
      env: { ...own, ...(request.network && options.networkEnvironment?.(own)), [MARKER]: id },
      start: (program) => {
        const started = startIn({ workspace, directory }, (folder) => start({ ...program, folder }))
        orphanReaper.started(marker, started.pid)
        return started
      },
      hasPidNamespace: false,
      marker,
      onEnded: async () => {
        if (!(await orphanReaper.end(marker)))
          log.warn('some processes of a command could not be killed', { id })
      },
    }
  }
  const { isolation } = options
  // The runner's own filter applies to every command.
  return createExecutor({
    ...{ isolation, hasSyscallFilter: true, launch, log },
    writable: [workspace],
    onUsage,
    volumeBytes: options.workspaceBytes,
    remove: async () => undefined,
  })
}

/** Rejects requests for protections that a pod cannot provide, instead of ignoring them. */
function unkept({ denied, readOnly, readOnlyRoots }: ExecRequest): string | undefined {
  if (denied.length > 0) return 'a sandbox pod cannot hide paths from a command'
  if (readOnly.length > 0) return 'a sandbox pod cannot make paths read-only for a command'
  const absent = readOnlyRoots.find((root) => !statSync(root, { throwIfNoEntry: false })?.isDirectory())
  return absent === undefined ? undefined : `this sandbox pod has no folder ${absent}`
}

/**
 * Opens the folder, following links, and checks that it lies in the workspace. The command starts in the open
 * folder, even if the path names another folder by then.
 */
function startIn(
  { workspace, directory }: { readonly workspace: string; readonly directory: string },
  start: (folder: number) => StartedProgram,
): StartedProgram {
  const folder = openSync(join(workspace, directory), O_PATH | constants.O_DIRECTORY)
  try {
    if (!isWithin(readlinkSync(`/proc/self/fd/${folder}`), workspace))
      throw new Error(`the working directory ${directory} leads out of the workspace`)
    return start(folder)
  } finally {
    closeSync(folder)
  }
}
