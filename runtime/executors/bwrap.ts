import { randomUUID } from 'node:crypto'
import { commandShell } from './command-shell.ts'
import { createExecutor, type Order } from './create-executor.ts'
import type { Backend, BackendWarning, Executor, ExecutorOptions } from './executor.ts'
import { findTool, isRoot } from './host.ts'
import { LAUNCHER_FD, supervisorScript } from './process/command-supervisor.ts'
import { expectedMounts } from './process/mount-proof.ts'
import type { Launch } from './process/supervise.ts'
import { detectByProof } from './prove.ts'
import { accessOf, NO_EGRESS, prepareEgress } from './rootfs/egress-mounts.ts'
import { pathIdentity } from './rootfs/host-paths.ts'
import {
  bindWritable,
  type Mount,
  mountsBeside,
  PRIVATE_MOUNTS,
  SANDBOX_HOSTNAME,
  SANDBOX_PATHS,
  SANDBOX_USER,
  SHM_MOUNT,
  writableFolders,
} from './rootfs/mounts.ts'
import { procMounts } from './rootfs/proc-mounts.ts'
import { requestMounts } from './rootfs/request-mounts.ts'
import { buildOnSkeleton, type Skeleton } from './rootfs/skeleton.ts'
import { baseEnvironment, systemMounts, toolMounts } from './rootfs/system-mounts.ts'
import { NO_FILTER_FOR_PROCESSOR, writeFilters } from './seccomp/filter-files.ts'
import { isolationWarnings, UNBOUNDED_PROCESSES } from './warnings.ts'

/**
 * Identifies the child of a bubblewrap that is killed before the child has asked to die with it. It is not in the environment of
 * commands; one that reads it elsewhere learns a number that identifies only its own sandbox.
 */
const MARKER = 'AGENTWEAVER_LAUNCH_ID'

const NAMESPACES = [
  ...[
    '--unshare-user',
    '--unshare-pid',
    '--unshare-ipc',
    '--unshare-uts',
    '--unshare-cgroup',
    '--unshare-net',
  ],
  ...['--uid', String(SANDBOX_USER.uid), '--gid', String(SANDBOX_USER.gid), '--hostname', SANDBOX_HOSTNAME],
  ...['--new-session', '--die-with-parent', '--cap-drop', 'ALL', '--unsetenv', MARKER],
]

/** One mount as bubblewrap arguments. bubblewrap creates missing mount points. */
export function mountArguments(mount: Mount): string[] {
  switch (mount.kind) {
    case 'bind':
      return [mount.writable ? '--bind' : '--ro-bind', mount.source, mount.target]
    case 'tmpfs':
      return ['--perms', mount.mode, '--size', String(mount.bytes), '--tmpfs', mount.target]
    case 'hidden-folder':
      return ['--perms', '0000', '--size', '4096', '--tmpfs', mount.target, '--remount-ro', mount.target]
    case 'hidden-file':
      // bubblewrap mounts with `nodev`, so opening the file fails.
      return ['--ro-bind', '/dev/null', mount.target]
  }
}

const argumentsOf = (mounts: readonly Mount[]) => mounts.flatMap(mountArguments)

async function build(options: ExecutorOptions, skeleton: Skeleton, systemFolders: readonly string[]) {
  const file = findTool('bwrap')
  const openFilter = await writeFilters(skeleton.aside)
  const egress = await prepareEgress(skeleton.root, options.egressFolder)
  const { workspace } = options
  const outside = [
    ...toolMounts(options.toolRoots, workspace),
    ...mountsBeside(options.layout),
    bindWritable(workspace, SANDBOX_PATHS.workspace, pathIdentity(workspace)),
  ]
  const constant = [
    ...NAMESPACES,
    ...['--bind', skeleton.root, '/'],
    ...argumentsOf([...systemMounts(systemFolders), ...PRIVATE_MOUNTS]),
    ...['--proc', '/proc', ...argumentsOf(procMounts(isRoot()))],
    ...['--dev', '/dev', ...mountArguments(SHM_MOUNT), '--remount-ro', '/dev'],
    ...argumentsOf(outside),
  ]
  const ending = [
    ...['--remount-ro', '/', ...(openFilter ? ['--seccomp', String(LAUNCHER_FD)] : [])],
    ...['--', '/bin/sh', '-c', supervisorScript(), 'sh', SANDBOX_PATHS.workspace],
  ]
  const env = { ...baseEnvironment(options.toolRoots, SANDBOX_PATHS.home), ...options.layout?.environment }
  const launch = async (order: Order): Promise<Launch | { problem: string }> => {
    const { request, directory } = order
    const added = await requestMounts(options, request)
    if (!added.ok) return { problem: added.message }
    const access = accessOf(request, egress, env)
    if (!access) return { problem: NO_EGRESS }
    const own = [...access.mounts, ...added.mounts]
    const id = randomUUID()
    return {
      file,
      args: [
        ...[...constant, ...argumentsOf(own), ...ending],
        ...[directory, request.command, ...access.relay],
      ],
      env: { ...access.environment, [MARKER]: id },
      marker: `${MARKER}=${id}`,
      hasPidNamespace: true,
      expected: expectedMounts([...outside, ...added.mounts]),
      release: added.release,
      openLauncherFd: openFilter?.(order.rights),
    }
  }
  return createExecutor({
    isolation: ISOLATION,
    hasSyscallFilter: openFilter !== undefined,
    launch,
    writable: writableFolders(options),
    onUsage: options.onUsage,
    remove: skeleton.remove,
    log: options.log,
  })
}

const ISOLATION = {
  backend: 'linux-bwrap',
  isRealIsolation: true,
  enforcesEgress: true,
  shell: commandShell().name,
  reason: 'bubblewrap works on this machine',
} as const

function warnings({ hasSyscallFilter }: Executor): BackendWarning[] {
  return isolationWarnings([
    ...(hasSyscallFilter ? [] : [NO_FILTER_FOR_PROCESSOR]),
    ...(isRoot() ? [UNBOUNDED_PROCESSES] : []),
  ])
}

/** The first choice on Linux: bubblewrap. */
export const bwrapBackend: Backend = {
  name: 'linux-bwrap',
  create: (options) => buildOnSkeleton((skeleton, folders) => build(options, skeleton, folders)),
  detect: (options) =>
    detectByProof({
      backend: bwrapBackend,
      isolation: ISOLATION,
      warnings,
      tools: ['bwrap'],
      packageHint: 'apt-get install bubblewrap (dnf, apk and pacman call it bubblewrap too)',
      options,
    }),
}
