import { existsSync, readFileSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import type { ClusterContext, ProgramSpec } from '../cluster-context.ts'
import { HarnessError } from '../harness-error.ts'
import { createCgroups } from '../host/cgroups.ts'
import { type Daemon, explainEnd, startDaemon } from '../host/daemon.ts'
import { linkName } from '../host/links.ts'
import { logPath } from '../host/run-folder.ts'
import { temporaryFolderMounts } from '../host/temporary-folder.ts'
import { waitUntil } from '../host/wait-until.ts'

/** The namespaces in which the programs and pods of one node run. One process holds them open. */
export interface NodeNamespaces {
  readonly pid: number
  readonly holder: Daemon
  /** Starts a program of the node in the namespaces. */
  run(spec: ProgramSpec): Daemon
  /** Runs a short command in the namespaces and waits until it succeeds. */
  execute(what: string, argv: readonly string[], timeoutMs?: number): Promise<void>
}

const NAMESPACES = ['--net', '--mount', '--pid', '--cgroup', '--uts', '--ipc']
const ENTER_MS = 5_000
const EXECUTE_MS = 20_000

/**
 * Creates the namespaces with a pause process as their first process. It reaps orphans. When it ends, the kernel also
 * ends every other process, mount and link of the node. It is killed with this process.
 */
export async function createNamespaces(context: ClusterContext, index: number): Promise<NodeNamespaces> {
  const name = `node${index}`
  const cgroups = createCgroups(`${linkName(context.slot)}-${name}`)
  context.noteCgroups(cgroups)
  const pause = context.tools.bin('node', 'pause')
  const flags = [...NAMESPACES, '--fork', '--kill-child', '--mount-proc', '--propagation', 'private']
  const holder = context.run({ name, cgroups, argv: ['unshare', ...flags, '--', pause] })
  const pid = await waitUntil(
    { what: `the namespaces of ${name}`, timeoutMs: ENTER_MS, needs: [holder], everyMs: 2 },
    () => childInOwnNamespaces(holder.identity.pid),
  )
  context.noteNode({ name, pid })
  const inside = (argv: readonly string[]) => ['nsenter', '-t', String(pid), '-a', '--', ...argv]
  return {
    pid,
    holder,
    run: (spec) => context.run({ ...spec, cgroups, argv: inside(spec.argv) }),
    async execute(what, argv, timeoutMs = EXECUTE_MS) {
      const log = logPath(context.folder, `${name}-setup`)
      const command = startDaemon({ name: what, argv: inside(argv), logPath: log, cgroups })
      await waitUntil({ what, timeoutMs, needs: [holder], everyMs: 2 }, () => command.exitReason())
      if (command.exitReason() !== 'ended with code 0') throw new HarnessError(explainEnd(command))
    },
  }
}

function childInOwnNamespaces(parent: number): number | undefined {
  const [child] = readFileSync(`/proc/${parent}/task/${parent}/children`, 'utf8').trim().split(' ')
  if (!child) return undefined
  const isPause = readFileSync(`/proc/${child}/comm`, 'utf8').trim() === 'pause'
  const isApart = readlinkSync(`/proc/${child}/ns/net`) !== readlinkSync('/proc/self/ns/net')
  return isPause && isApart ? Number(child) : undefined
}

/** Mounts the file systems that containerd, the kubelet and a network agent expect. */
export async function mountFileSystems(context: ClusterContext, node: NodeNamespaces): Promise<void> {
  const commands = [
    'mount -t sysfs sysfs /sys',
    ...cgroupMounts(),
    'mount -t tmpfs -o mode=755 tmpfs /run',
    'mkdir -p /run/containerd /run/netns /run/runc /run/cilium/cgroupv2 /run/xtables',
    'mount -t bpf bpf /sys/fs/bpf',
    'mount -t cgroup2 none /run/cilium/cgroupv2',
    ...temporaryFolderMounts(context.folder),
    'mount --make-rshared /',
    'sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0',
  ]
  await node.execute('mounting the node’s file systems', ['sh', '-ec', commands.join('\n')])
}

/** Mounts the node's own control groups as the roots of the hierarchies. */
function cgroupMounts(): string[] {
  const root = '/sys/fs/cgroup'
  const controllers = readFileSync('/proc/self/cgroup', 'utf8')
    .split('\n')
    .map((line) => line.split(':')[1] ?? '')
    .filter((name) => name !== '')
  const mounts = controllers.map((name) => {
    const folder = join(root, name.replace('name=', ''))
    const options = name.startsWith('name=') ? `none,${name}` : name
    return `mkdir -p ${folder} && mount -t cgroup -o ${options} cgroup ${folder}`
  })
  return ['mount -t tmpfs -o mode=755 tmpfs /sys/fs/cgroup', ...mounts]
}

/** The folders of runc on Debian and other systems. */
export function findRunc(): string {
  const found = ['/usr/sbin/runc', '/usr/bin/runc', '/usr/local/sbin/runc', '/usr/local/bin/runc'].find(
    (path) => existsSync(path),
  )
  if (!found) throw new HarnessError('runc is not installed')
  return found
}
