import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { ExecRequest } from '../../contracts/exec.ts'
import { createExecutor } from './create-executor.ts'
import type { Backend, ExecutorOptions } from './executor.ts'
import { findTool, hasNamespacedPidMax, isRoot, lookUpTool } from './host.ts'
import { loopbackCommand } from './loopback.ts'
import { setupScript } from './namespaces-setup.ts'
import { expectedMounts } from './process/mount-proof.ts'
import type { Launch } from './process/supervise.ts'
import { witnessScript } from './process/witness.ts'
import { detectByProof } from './prove.ts'
import { pathIdentity } from './rootfs/host-paths.ts'
import { readMountInfo } from './rootfs/mount-info.ts'
import { mountTable } from './rootfs/mount-table.ts'
import {
  bindReadOnly,
  bindWritable,
  type Mount,
  PRIVATE_MOUNTS,
  SANDBOX_PATHS,
  SANDBOX_USER,
  SHM_MOUNT,
} from './rootfs/mounts.ts'
import { procMounts } from './rootfs/proc-mounts.ts'
import { isWorkspaceReadOnly, requestMounts } from './rootfs/request-mounts.ts'
import { buildOnSkeleton, type Skeleton } from './rootfs/skeleton.ts'
import { baseEnvironment, resolverMounts, systemMounts, toolMounts } from './rootfs/system-mounts.ts'
import { isolationWarnings, UNBOUNDED_PROCESSES } from './warnings.ts'

const TOOLS = ['unshare', 'setpriv', 'mount', 'umount', 'pivot_root'] as const

const ISOLATION = {
  backend: 'linux-namespaces',
  isRealIsolation: true,
  enforcesEgress: false,
  reason: 'the namespaces of this kernel work with util-linux alone',
} as const

/** The arguments of the two launchers: nothing they start outlives us, gains a privilege or keeps a namespace. */
function launcherArguments(network: boolean): string[] {
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
    ...(network ? ['--'] : ['--net', '--']),
  ]
}

async function build(options: ExecutorOptions, skeleton: Skeleton, systemFolders: readonly string[]) {
  const { workspace, toolRoots, log } = options
  const file = findTool('setpriv')
  const mounted = readMountInfo()
  const table = mountTable(skeleton.root, mounted)
  const before = [...systemMounts(systemFolders), ...PRIVATE_MOUNTS, SHM_MOUNT]
  const tools = toolMounts(toolRoots, workspace)
  const rows = [table.rows(before), table.kernelRows(), table.rows([...procMounts(isRoot()), ...tools])]
  const tableWith = async (name: string, mount: Mount) => {
    await writeFile(join(skeleton.aside, name), [...rows, table.rows([mount])].join(''))
    return join(skeleton.aside, name)
  }
  // mount(8) passes over what is mounted already, so a workspace that is read-only cannot be made so afterwards.
  const identity = pathIdentity(workspace)
  const own = bindWritable(workspace, SANDBOX_PATHS.workspace, identity)
  const writable = await tableWith('mounts', own)
  const readOnly = await tableWith('mounts-read-only', bindReadOnly(workspace, SANDBOX_PATHS.workspace))
  const resolver = table.rows(resolverMounts())
  const setup = setupScript({
    mount: findTool('mount'),
    umount: findTool('umount'),
    pivotRoot: findTool('pivot_root'),
    unshare: findTool('unshare'),
    hostname: lookUpTool('hostname'),
    loopback: loopbackCommand(),
    user: SANDBOX_USER,
  })
  const argumentsFor = { true: launcherArguments(true), false: launcherArguments(false) }
  const env = baseEnvironment(toolRoots, SANDBOX_PATHS.home)
  const launch = async (request: ExecRequest, directory: string): Promise<Launch | { problem: string }> => {
    const added = await requestMounts(options, request)
    if (!added.ok) return { problem: added.message }
    const addedRows = (request.network ? resolver : '') + table.rows(added.mounts)
    return {
      file,
      args: [
        ...argumentsFor[request.network ? 'true' : 'false'],
        ...[
          '/bin/sh',
          '-c',
          setup,
          'sh',
          skeleton.root,
          isWorkspaceReadOnly(request) ? readOnly : writable,
          addedRows,
          request.network ? '' : 'own-network',
          witnessScript(),
        ],
        ...[SANDBOX_PATHS.workspace, directory, request.command],
      ],
      env,
      hasPidNamespace: true,
      expected: expectedMounts([...tools, own, ...added.mounts]),
      release: added.release,
    }
  }
  return createExecutor({ isolation: ISOLATION, launch, remove: skeleton.remove, log })
}

function warnings() {
  return isolationWarnings([
    'util-linux cannot filter system calls: a command may use all of the kernel that needs no privilege (keyrings, io_uring, vsock)',
    ...(loopbackCommand()
      ? []
      : ['commands without network have no loopback: iproute2, net-tools or perl starts it']),
    ...(isRoot() && !hasNamespacedPidMax() ? [UNBOUNDED_PROCESSES] : []),
  ])
}

/** The second rung on Linux: the kernel's namespaces with what a base system has. */
export const namespacesBackend: Backend = {
  name: 'linux-namespaces',
  create: (options) => buildOnSkeleton((skeleton, folders) => build(options, skeleton, folders)),
  detect: (options) =>
    detectByProof({
      backend: namespacesBackend,
      isolation: ISOLATION,
      warnings: warnings(),
      tools: TOOLS,
      packageHint: 'apt-get install util-linux (2.36 or newer)',
      options,
    }),
}
