import { constants } from 'node:os'
import { answer, encode, type Instruction, ifAnyBit, ifAtLeast, ifEqual, load, SECCOMP_DATA } from './bpf.ts'
import { AUDIT_ARCH, type FilteredArch, type SyscallName, syscallNumber } from './syscalls.ts'

/** SECCOMP_RET_* from linux/seccomp.h. */
const ALLOW = 0x7fff_0000
const KILL_PROCESS = 0x8000_0000
const refuse = (errno: number) => 0x0005_0000 | errno

const { EPERM, ENOSYS, EAFNOSUPPORT, EOPNOTSUPP } = constants.errno

/** x32 calls set this bit. They would pass a filter that only knows the 64-bit numbers. */
const X32_BIT = 0x4000_0000

/**
 * Rejected for all arguments: each call is a way around the isolation, or a large part of the kernel that no
 * build needs.
 */
export const REFUSED_SYSCALLS: readonly SyscallName[] = [
  ...(['mount', 'umount2', 'pivot_root', 'chroot', 'open_tree', 'open_tree_attr', 'move_mount'] as const),
  ...(['fsopen', 'fsconfig', 'fsmount', 'fspick', 'mount_setattr', 'open_by_handle_at'] as const),
  ...(['statmount', 'listmount'] as const),
  ...(['unshare', 'setns'] as const),
  ...(['ptrace', 'process_vm_readv', 'process_vm_writev', 'kcmp', 'pidfd_getfd'] as const),
  ...(['keyctl', 'add_key', 'request_key'] as const),
  ...(['bpf', 'perf_event_open', 'userfaultfd', 'fanotify_init', 'lookup_dcookie', 'syslog'] as const),
  ...(['io_uring_setup', 'io_uring_enter', 'io_uring_register'] as const),
  ...(['kexec_load', 'kexec_file_load', 'reboot', 'acct', 'swapon', 'swapoff'] as const),
  ...(['init_module', 'finit_module', 'delete_module', 'create_module', 'query_module'] as const),
  ...(['get_kernel_syms', 'uselib', '_sysctl', 'sysfs', 'ustat', 'nfsservctl'] as const),
  ...(['quotactl', 'quotactl_fd', 'iopl', 'ioperm', 'modify_ldt', 'vhangup'] as const),
  ...(['sethostname', 'setdomainname', 'settimeofday', 'clock_settime', 'clock_adjtime'] as const),
  ...(['adjtimex', 'migrate_pages', 'move_pages'] as const),
]

/** CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET from linux/sched.h. */
const NEW_NAMESPACE_BITS = 0x7e02_0000

/** TIOCSTI injects input into the user's terminal. TIOCLINUX pastes into a console. */
const REFUSED_IOCTLS = [0x5412, 0x541c]

/**
 * AF_UNIX, AF_INET, AF_INET6, AF_NETLINK. Network namespaces do not isolate all other families: AF_VSOCK
 * reaches the hypervisor.
 */
const SOCKET_FAMILIES: readonly number[] = [1, 2, 10, 16]

const UNIX_FAMILY: readonly number[] = [1]

/** Differences between a filter that a process applies to itself and the filter of commands. */
export interface FilterOptions {
  /** Rejects every socket that could leave the machine. */
  readonly unixSocketsOnly?: boolean
  /**
   * Allows `io_uring_enter`, which Node's event loop needs for the ring that it created at start. New rings are
   * still rejected.
   */
  readonly keepsRing?: boolean
  /**
   * Process ids and process groups that processes under the filter must not signal; signals to all processes
   * are rejected too. No process may set the limits of another one.
   */
  readonly spared?: Spared
  /** Allows `chmod` to set the set-group-ID bit, which folders use. Files are still created without it. */
  readonly permitsSetGroupId?: boolean
  /**
   * Allows `openat2`, which the workspace engine needs. The filter cannot check the mode of files created with
   * it, and cannot reject `O_TMPFILE`. It therefore rejects `linkat` for open files.
   */
  readonly permitsOpenat2?: boolean
}

export interface Spared {
  readonly processes: readonly number[]
  readonly groups: readonly number[]
}

/** The instructions for one system call. Every path through them ends in a return action. */
type Rule = readonly [number: number, whenCalled: readonly Instruction[]]

/**
 * Builds a decision tree over the rules, sorted by number. When a filter is loaded, which happens for every
 * command, the kernel runs it for every number: a linear list would add 0.1 ms.
 */
function decide(rules: readonly Rule[]): Instruction[] {
  if (rules.length <= 3) {
    const tests = rules.map(([number, whenCalled]) => [ifEqual(number, 0, whenCalled.length), ...whenCalled])
    return [...tests.flat(), answer(ALLOW)]
  }
  const middle = rules.length >> 1
  const below = decide(rules.slice(0, middle))
  const above = decide(rules.slice(middle))
  return [ifAtLeast((rules[middle] as Rule)[0], below.length, 0), ...below, ...above]
}

/**
 * Rejects the call if the low half of an argument is one of `values`. The kernel ignores the high half of an
 * ioctl.
 */
const refuseArgument = (index: number, values: readonly number[]): Instruction[] => [
  load(SECCOMP_DATA.argument(index)),
  ...values.flatMap((value) => [ifEqual(value, 0, 1), answer(refuse(EPERM))]),
  answer(ALLOW),
]

/** Calls whose first argument is the target process. */
const CALLS_ABOUT_A_PROCESS: readonly SyscallName[] = [
  ...(['tkill', 'tgkill', 'rt_sigqueueinfo', 'rt_tgsigqueueinfo', 'pidfd_open'] as const),
]

/** The pid argument of `kill` that means every process that the caller may signal. */
const EVERYBODY = -1

/** The kernel reads the low half of a process id. */
const asArgument = (pid: number): number => pid >>> 0

function sparing({ processes, groups }: Spared): (readonly [SyscallName, readonly Instruction[]])[] {
  const all = [EVERYBODY, ...groups.filter((group) => group > 1).map((group) => -group)]
  return [
    ['kill', refuseArgument(0, [...processes, ...all].map(asArgument))],
    // A filter cannot tell which process a descriptor refers to. Libraries fall back to the process id.
    ['pidfd_send_signal', [answer(refuse(ENOSYS))]],
    // The id of any thread selects the whole process.
    ['prlimit64', ownLimitsOnly],
    ...CALLS_ABOUT_A_PROCESS.map((name) => [name, refuseArgument(0, processes.map(asArgument))] as const),
  ]
}

/** Allows setting only the caller's own limits (pid 0), and reading the limits of any process. */
const ownLimitsOnly: Instruction[] = [
  load(SECCOMP_DATA.argument(0)),
  ifEqual(0, 5, 0),
  load(SECCOMP_DATA.argument(2)),
  ifEqual(0, 0, 2),
  load(SECCOMP_DATA.argument(2) + 4),
  ifEqual(0, 1, 0),
  answer(refuse(EPERM)),
  answer(ALLOW),
]

const onlyFamilies = (families: readonly number[]): Instruction[] => [
  load(SECCOMP_DATA.argument(0)),
  ...families.flatMap((family) => [ifEqual(family, 0, 1), answer(ALLOW)]),
  answer(refuse(EAFNOSUPPORT)),
]

const noNewNamespace: Instruction[] = [
  load(SECCOMP_DATA.argument(0)),
  ifAnyBit(NEW_NAMESPACE_BITS, 0, 1),
  answer(refuse(EPERM)),
  answer(ALLOW),
]

/** From linux/stat.h. A file with these bits runs as its owner or in its group. */
const S_ISUID = 0o4000
const S_ISGID = 0o2000

/** From asm-generic/fcntl.h, the same on x64 and arm64. Only a call with one of these flags creates a file. */
const O_CREAT = 0o100
const O_TMPFILE = 0o20_000_000

/** AT_SYMLINK_FOLLOW and AT_EMPTY_PATH from linux/fcntl.h. With one of them, `linkat` gives a name to an open file. */
const LINKS_OPEN_FILE = 0x400 | 0x1000

const refuseBits = (index: number, bits: number, errno: number): Instruction[] => [
  load(SECCOMP_DATA.argument(index)),
  ifAnyBit(bits, 0, 1),
  answer(refuse(errno)),
  answer(ALLOW),
]

const refuseMode = (index: number, bits: number): Instruction[] => refuseBits(index, bits, EPERM)

/**
 * Rejects files without a name, which the limit of a workspace cannot count. Programs fall back to a file with a name, as on a
 * file system without `O_TMPFILE`. The mode is the argument after the flags. Without `O_CREAT`, it is ignored.
 */
const checkOpen = (flags: number, bits: number): Instruction[] => [
  load(SECCOMP_DATA.argument(flags)),
  ifAnyBit(O_TMPFILE, 0, 1),
  answer(refuse(EOPNOTSUPP)),
  ifAnyBit(O_CREAT, 0, 3),
  load(SECCOMP_DATA.argument(flags + 1)),
  ifAnyBit(bits, 0, 1),
  answer(refuse(EPERM)),
  answer(ALLOW),
]

/**
 * Prevents a command from leaving a program on the host that runs as the service's user. The calls that create
 * files cannot create folders.
 */
function noSetId({ permitsSetGroupId = false, permitsOpenat2 = false }: FilterOptions) {
  const ofFile = S_ISUID | S_ISGID
  const ofAnything = permitsSetGroupId ? S_ISUID : ofFile
  const judged: (readonly [SyscallName, readonly Instruction[]])[] = [
    ['chmod', refuseMode(1, ofAnything)],
    ['fchmod', refuseMode(1, ofAnything)],
    ['fchmodat', refuseMode(2, ofAnything)],
    ['fchmodat2', refuseMode(2, ofAnything)],
    ['open', checkOpen(1, ofFile)],
    ['openat', checkOpen(2, ofFile)],
    ['creat', refuseMode(1, ofFile)],
    ['mknod', refuseMode(1, ofFile)],
    ['mknodat', refuseMode(2, ofFile)],
  ]
  // `openat2` keeps its flags and mode in memory, which a filter cannot read. Programs fall back to `openat`. If a filter allows
  // `openat2`, `linkat` must not give a name to a file that was created without one.
  return permitsOpenat2
    ? [...judged, ['linkat', refuseBits(4, LINKS_OPEN_FILE, EOPNOTSUPP)] as const]
    : [...judged, ['openat2', [answer(refuse(ENOSYS))]] as const]
}

/** Returns the rules with their numbers. Calls that the architecture does not have are skipped. */
function rulesFor(arch: FilteredArch, options: FilterOptions): Rule[] {
  const { unixSocketsOnly = false, keepsRing = false, spared } = options
  const families = unixSocketsOnly ? UNIX_FAMILY : SOCKET_FAMILIES
  const refused = REFUSED_SYSCALLS.filter((name) => !(keepsRing && name === 'io_uring_enter'))
  const judged: (readonly [SyscallName, readonly Instruction[]])[] = [
    ...noSetId(options),
    ...refused.map((name) => [name, [answer(refuse(EPERM))]] as const),
    // `clone3` keeps its flags in memory, which a filter cannot read. Libraries fall back to `clone`.
    ['clone3', [answer(refuse(ENOSYS))]],
    // It fills a disk at once, before the service can stop the command. Programs write zeros when a file system lacks it.
    ['fallocate', [answer(refuse(EOPNOTSUPP))]],
    ['clone', noNewNamespace],
    ['ioctl', refuseArgument(1, REFUSED_IOCTLS)],
    ['socket', onlyFamilies(families)],
    ['socketpair', onlyFamilies(families)],
    ...(spared ? sparing(spared) : []),
  ]
  return judged
    .flatMap(([name, whenCalled]): Rule[] => {
      const number = syscallNumber(arch, name)
      return number === undefined ? [] : [[number, whenCalled]]
    })
    .sort(([a], [b]) => a - b)
}

/** Returns the filter for one architecture. Calls of other architectures kill the process. */
export function seccompInstructions(arch: FilteredArch, options: FilterOptions = {}): Instruction[] {
  const noX32 = arch === 'x64' ? [ifAtLeast(X32_BIT, 0, 1), answer(KILL_PROCESS)] : []
  return [
    load(SECCOMP_DATA.arch),
    ifEqual(AUDIT_ARCH[arch], 1, 0),
    answer(KILL_PROCESS),
    load(SECCOMP_DATA.nr),
    ...noX32,
    ...decide(rulesFor(arch, options)),
  ]
}

/** Returns the compiled filter for this machine. Undefined if the architecture has none. */
export function seccompProgram(
  arch: NodeJS.Architecture,
  options: FilterOptions = {},
): Uint8Array | undefined {
  return arch === 'x64' || arch === 'arm64' ? encode(seccompInstructions(arch, options)) : undefined
}
