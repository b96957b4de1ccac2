import { randomUUID } from 'node:crypto'
import { closeSync, constants, openSync, readlinkSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { ExecRequest, Isolation } from '../../contracts/exec.ts'
import { commandShell } from './command-shell.ts'
import { createExecutor, type Order } from './create-executor.ts'
import type { Backend, Executor, ExecutorOptions } from './executor.ts'
import type { Program, StartedProgram } from './process/start.ts'
import { type StrayOptions, Strays } from './process/strays.ts'
import type { Launch } from './process/supervise.ts'
import { isWithin } from './rootfs/mounts.ts'
import { baseEnvironment } from './rootfs/system-mounts.ts'

/** By this entry of its environment a process is found that left its group. */
const MARKER = 'AGENTWEAVER_COMMAND_ID'

/** Not among Node's constants; the same on the architectures that Node runs on. */
const O_PATH = 0o10_000_000

export interface PodBackendOptions extends StrayOptions {
  /** Starts a program in an open folder, under the limits and the filter of this process. */
  readonly start: (program: Program & { readonly folder: number }) => StartedProgram
  readonly isolation: Isolation
  readonly home: string
}

/**
 * Commands as processes of a pod's toolbox: the pod is the isolation. The process that runs them is their parent. It
 * must adopt orphans, so that whatever a command leaves behind is found, however it hides, and must have put on itself
 * what holds a command: the limits, and a filter that keeps their signals from it.
 */
export function createPodBackend(options: PodBackendOptions): Backend {
  return {
    name: 'kubernetes-sandbox-claim',
    create: async (given) => createPodExecutor(given, options),
    detect: async () => ({ ok: true, isolation: options.isolation, warnings: [] }),
  }
}

function createPodExecutor({ workspace, log }: ExecutorOptions, options: PodBackendOptions): Executor {
  const { start } = options
  const env = baseEnvironment([], options.home)
  const strays = new Strays(options)
  const shell = commandShell()
  const launch = async ({ request, directory }: Order): Promise<Launch | { problem: string }> => {
    const problem = unkept(request)
    if (problem !== undefined) return { problem }
    const id = randomUUID()
    const marker = `${MARKER}=${id}`
    strays.begin(marker)
    return {
      file: shell.file,
      args: [...shell.args, request.command, shell.nameArgument],
      env: { ...env, ...request.environment, [MARKER]: id },
      start: (program) => {
        const started = startIn({ workspace, directory }, (folder) => start({ ...program, folder }))
        strays.started(marker, started.pid)
        return started
      },
      hasPidNamespace: false,
      marker,
      onEnded: async () => {
        if (!(await strays.end(marker))) log.warn('a command left processes that outrun their end', { id })
      },
    }
  }
  const { isolation } = options
  // The filter of the runner is on every command.
  return createExecutor({ isolation, hasSyscallFilter: true, launch, remove: async () => undefined, log })
}

/** What a request asks for and a process of the pod cannot be given is refused, never ignored. */
function unkept({ denied, readOnly, readOnlyRoots }: ExecRequest): string | undefined {
  if (denied.length > 0) return 'a sandbox pod cannot hide paths from a command'
  if (readOnly.length > 0) return 'a sandbox pod cannot make paths read-only for a command'
  const absent = readOnlyRoots.find((root) => !statSync(root, { throwIfNoEntry: false })?.isDirectory())
  return absent === undefined ? undefined : `this sandbox pod has no folder ${absent}`
}

/**
 * Opens the folder, links followed, and starts there if it is one of the workspace: what is open stays what it is,
 * whatever is put in the place of its name meanwhile.
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
