import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { commandShell } from './command-shell.ts'
import { createExecutor, type Order } from './create-executor.ts'
import type { Backend, Executor, ExecutorOptions } from './executor.ts'
import { findTool, hasNamespacedPidMax, isRoot, lookUpTool } from './host.ts'
import { loopbackCommand } from './loopback.ts'
import { setupScript } from './namespaces-setup.ts'
import { supervisorScript } from './process/command-supervisor.ts'
import { expectedMounts } from './process/mount-proof.ts'
import type { Launch } from './process/supervise.ts'
import { detectByProof } from './prove.ts'
import { accessOf, NO_EGRESS, prepareEgress } from './rootfs/egress-mounts.ts'
import { pathIdentity } from './rootfs/host-paths.ts'
import { readMountInfo } from './rootfs/mount-info.ts'
import { mountTable } from './rootfs/mount-table.ts'
import {
  bindReadOnly,
  bindWritable,
  type Mount,
  mountsBeside,
  PRIVATE_MOUNTS,
  SANDBOX_PATHS,
  SANDBOX_USER,
  SHM_MOUNT,
  writableFolders,
} from './rootfs/mounts.ts'
import { procMounts } from './rootfs/proc-mounts.ts'
import { isWorkspaceReadOnly, requestMounts } from './rootfs/request-mounts.ts'
import { buildOnSkeleton, type Skeleton } from './rootfs/skeleton.ts'
import { baseEnvironment, systemMounts, toolMounts } from './rootfs/system-mounts.ts'
import { seccompProgram } from './seccomp/filter.ts'
import { NO_FILTER_FOR_PROCESSOR, writeFilters } from './seccomp/filter-files.ts'
import { type FilterLoader, findFilterLoader } from './seccomp/filter-loader.ts'
import { isolationWarnings, UNBOUNDED_PROCESSES } from './warnings.ts'

const TOOLS = ['unshare', 'setpriv', 'mount', 'umount', 'pivot_root'] as const

const ISOLATION = {
  backend: 'linux-namespaces',
  isRealIsolation: true,
  enforcesEgress: true,
  shell: commandShell().name,
  reason: 'the namespaces of this kernel work with util-linux',
} as const

/**
 * Arguments of setpriv and unshare: the processes die with the service, gain no privileges, and share no namespace
 * with the host.
 */
function launcherArguments(): string[] {
  return [
    ...['--pdeathsig', 'KILL', '--no-new-privs', '--', findTool('unshare')],
    ...[
      '--user',
      '--map-root-user',
      '--pid',
      '--fork',
      '--kill-child',
      '--mount',
      '--ipc',
      '--uts',
      '--cgroup',
    ],
    ...['--net', '--'],
  ]
}

/** Writes the mount tables of every command: one with a writable workspace, one with a read-only workspace. */
async function writeTables(options: ExecutorOptions, skeleton: Skeleton, systemFolders: readonly string[]) {
  const { workspace, toolRoots, layout } = options
  const table = mountTable(skeleton.root, readMountInfo())
  const before = [...systemMounts(systemFolders), ...PRIVATE_MOUNTS, SHM_MOUNT]
  const tools = [...toolMounts(toolRoots, workspace), ...mountsBeside(layout)]
  const rows = [table.rows(before), table.kernelRows(), table.rows([...procMounts(isRoot()), ...tools])]
  const tableWith = async (name: string, mount: Mount) => {
    await writeFile(join(skeleton.aside, name), [...rows, table.rows([mount])].join(''))
    return join(skeleton.aside, name)
  }
  // mount(8) skips targets that are already mounted, so a workspace cannot be made read-only by a later row.
  const identity = pathIdentity(workspace)
  const own = bindWritable(workspace, SANDBOX_PATHS.workspace, identity)
  const writable = await tableWith('mounts', own)
  const readOnly = await tableWith('mounts-read-only', bindReadOnly(workspace, SANDBOX_PATHS.workspace))
  return { table, writable, readOnly, known: [...tools, own] }
}

/**
 * Starts the command supervisor in a second user namespace, as another user without capabilities. The filter is
 * loaded last, because building the sandbox needs calls that it rejects.
 */
function commandLauncher(loader: FilterLoader | undefined): string {
  const { uid, gid } = SANDBOX_USER
  // The bounding set can only be emptied while the process has capabilities, so before the command starts.
  const dropped = ['--bounding-set=-all', '--inh-caps=-all', '--ambient-caps=-all']
  return [
    ...[findTool('unshare'), '--user', `--map-user=${uid}`, `--map-group=${gid}`, '--keep-caps', '--'],
    ...[findTool('setpriv'), ...dropped, ...(loader?.setprivOptions ?? []), '--', ...(loader?.program ?? [])],
  ].join(' ')
}

/** Writes the filters and finds a program that can load them. Undefined if there is no filter or no loader. */
async function findFilter(folder: string) {
  const open = await writeFilters(folder)
  const loader = open && findFilterLoader(open({}))
  return loader && { open, loader }
}

async function build(options: ExecutorOptions, skeleton: Skeleton, systemFolders: readonly string[]) {
  const { table, writable, readOnly, known } = await writeTables(options, skeleton, systemFolders)
  const file = findTool('setpriv')
  const egress = await prepareEgress(skeleton.root, options.egressFolder)
  const filter = await findFilter(skeleton.aside)
  const setup = setupScript({
    mount: findTool('mount'),
    umount: findTool('umount'),
    pivotRoot: findTool('pivot_root'),
    commandLauncher: commandLauncher(filter?.loader),
    hostname: lookUpTool('hostname'),
    loopback: loopbackCommand(),
  })
  const launcher = launcherArguments()
  const env = { ...baseEnvironment(options.toolRoots, SANDBOX_PATHS.home), ...options.layout?.environment }
  const launch = async (order: Order): Promise<Launch | { problem: string }> => {
    const { request, directory } = order
    const added = await requestMounts(options, request)
    if (!added.ok) return { problem: added.message }
    const access = accessOf(request, egress, env)
    if (!access) return { problem: NO_EGRESS }
    const addedRows = table.rows([...access.mounts, ...added.mounts])
    return {
      file,
      args: [
        ...launcher,
        ...[
          '/bin/sh',
          '-c',
          setup,
          'sh',
          skeleton.root,
          isWorkspaceReadOnly(request) ? readOnly : writable,
          addedRows,
          supervisorScript(),
        ],
        ...[SANDBOX_PATHS.workspace, directory, request.command, ...access.relay],
      ],
      env: access.environment,
      hasPidNamespace: true,
      expected: expectedMounts([...known, ...added.mounts]),
      release: added.release,
      openLauncherFd: filter?.open(order.rights),
    }
  }
  return createExecutor({
    isolation: ISOLATION,
    hasSyscallFilter: filter !== undefined,
    launch,
    writable: writableFolders(options),
    onUsage: options.onUsage,
    remove: skeleton.remove,
    log: options.log,
  })
}

const NO_LOADER =
  'nothing here can load the system call filter, so commands can use every unprivileged kernel interface (keyrings, io_uring, vsock): install perl, or util-linux 2.41 or newer'

function warnings({ hasSyscallFilter }: Executor) {
  const why = seccompProgram(process.arch) ? NO_LOADER : NO_FILTER_FOR_PROCESSOR
  return isolationWarnings([
    ...(hasSyscallFilter ? [] : [why]),
    ...(loopbackCommand()
      ? []
      : ['commands have no loopback interface and no network access: install iproute2, net-tools or perl']),
    ...(isRoot() && !hasNamespacedPidMax() ? [UNBOUNDED_PROCESSES] : []),
  ])
}

/** The second choice on Linux: kernel namespaces, with the tools of a base system. */
export const namespacesBackend: Backend = {
  name: 'linux-namespaces',
  create: (options) => buildOnSkeleton((skeleton, folders) => build(options, skeleton, folders)),
  detect: (options) =>
    detectByProof({
      backend: namespacesBackend,
      isolation: ISOLATION,
      warnings,
      tools: TOOLS,
      packageHint: 'apt-get install util-linux (2.36 or newer)',
      options,
    }),
}
