import { describe, expect, it } from 'vitest'
import type { Instruction } from '../../runtime/executors/seccomp/bpf.ts'
import {
  REFUSED_SYSCALLS,
  seccompInstructions,
  seccompProgram,
} from '../../runtime/executors/seccomp/filter.ts'
import { AUDIT_ARCH, type SyscallName, syscallNumber } from '../../runtime/executors/seccomp/syscalls.ts'

const ALLOW = 0x7fff_0000
const KILL = 0x8000_0000
const refused = (errno: number) => 0x0005_0000 + errno

type Call = { arch: number; nr: number; args?: readonly number[] }

/** Reads a word of `struct seccomp_data`. */
function wordAt(offset: number, { arch, nr, args = [] }: Call): number {
  if (offset === 0) return nr >>> 0
  if (offset === 4) return arch >>> 0
  const value = BigInt.asUintN(64, BigInt(args[(offset - 16) >> 3] ?? 0))
  return Number(offset % 8 === 0 ? value & 0xffff_ffffn : value >> 32n)
}

const TESTS = new Map([
  [0x15, (register: number, k: number) => register === k],
  [0x35, (register: number, k: number) => register >= k],
  [0x45, (register: number, k: number) => (register & k) !== 0],
])

/** Evaluates a filter like the kernel: one register, forward jumps, a return action at the end. */
function evaluate(program: readonly Instruction[], call: Call): number {
  let register = 0
  for (let at = 0; at < program.length; at++) {
    const { code, k, jumpTrue, jumpFalse } = program[at] as Instruction
    if (code === 0x06) return k >>> 0
    if (code === 0x20) register = wordAt(k, call)
    else at += TESTS.get(code)?.(register, k) ? jumpTrue : jumpFalse
  }
  throw new Error('the program ran off its end')
}

describe.each(['x64', 'arm64'] as const)('the system call filter for %s', (arch) => {
  const program = seccompInstructions(arch)
  const call = (name: SyscallName, ...args: number[]) =>
    evaluate(program, { arch: AUDIT_ARCH[arch], nr: syscallNumber(arch, name) ?? -1, args })

  it('rejects every listed call of the architecture', () => {
    const present = REFUSED_SYSCALLS.filter((name) => syscallNumber(arch, name) !== undefined)

    expect(present.length).toBeGreaterThan(50)
    for (const name of present) expect([name, call(name)]).toEqual([name, refused(1)])
  })

  it('contains the calls of the specification', () => {
    const named: SyscallName[] = ['mount', 'ptrace', 'keyctl', 'bpf', 'perf_event_open', 'userfaultfd']
    const more: SyscallName[] = [
      'io_uring_setup',
      'kexec_load',
      'init_module',
      'finit_module',
      'delete_module',
    ]

    for (const name of [...named, ...more]) expect(call(name)).toBe(refused(1))
  })

  it('kills a process that makes calls of another architecture', () => {
    const i386 = 0x4000_0003
    const arm = 0x4000_0028

    for (const foreign of [i386, arm, AUDIT_ARCH[arch === 'x64' ? 'arm64' : 'x64']])
      expect(evaluate(program, { arch: foreign, nr: 1 })).toBe(KILL)
  })

  it('allows threads and forks, and rejects every new namespace', () => {
    const thread = 0x003d_0f00
    const namespaces = [0x2_0000, 0x200_0000, 0x400_0000, 0x800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000]

    expect(call('clone', thread)).toBe(ALLOW)
    expect(call('clone', 17)).toBe(ALLOW)
    for (const flag of namespaces) expect(call('clone', flag | 17)).toBe(refused(1))
    expect(call('clone3')).toBe(refused(38))
  })

  it('checks the half of an ioctl that the kernel reads', () => {
    expect(call('ioctl', 0, 0x5401)).toBe(ALLOW)
    expect(call('ioctl', 0, 0x5412)).toBe(refused(1))
    expect(call('ioctl', 0, 0xdead_0000_5412)).toBe(refused(1))
    expect(call('ioctl', 0, 0x541c)).toBe(refused(1))
  })

  it('allows four socket families', () => {
    for (const family of [1, 2, 10, 16]) expect(call('socket', family)).toBe(ALLOW)
    for (const family of [0, 3, 17, 31, 38, 40, 44]) expect(call('socket', family)).toBe(refused(97))
    expect(call('socketpair', 1)).toBe(ALLOW)
    expect(call('socketpair', 40)).toBe(refused(97))
  })

  it('rejects signals and limits for spared processes, and signals to all processes', () => {
    const sparing = seccompInstructions(arch, { spared: { processes: [1, 23], groups: [1, 23] } })
    const about = (name: SyscallName, pid: number, ...rest: number[]) =>
      evaluate(sparing, {
        arch: AUDIT_ARCH[arch],
        nr: syscallNumber(arch, name) ?? -1,
        args: [pid, ...rest],
      })
    const calls: SyscallName[] = ['tkill', 'tgkill', 'rt_sigqueueinfo', 'rt_tgsigqueueinfo', 'pidfd_open']

    for (const pid of [1, 23, -1, -23]) expect([pid, about('kill', pid)]).toEqual([pid, refused(1)])
    for (const pid of [0, 2, 24, -2, -24]) expect([pid, about('kill', pid)]).toEqual([pid, ALLOW])
    for (const name of calls)
      expect([name, ...[1, 23, 0, 22].map((pid) => about(name, pid))]).toEqual([
        name,
        ...[refused(1), refused(1), ALLOW, ALLOW],
      ])
    expect(about('pidfd_send_signal', 5)).toBe(refused(38))
    expect(call('kill', 1)).toBe(ALLOW)
  })

  it("allows a process to set its own limits and to read any process's limits", () => {
    const sparing = seccompInstructions(arch, { spared: { processes: [1], groups: [] } })
    const limit = (pid: number, limits: number) =>
      evaluate(sparing, {
        arch: AUDIT_ARCH[arch],
        nr: syscallNumber(arch, 'prlimit64') ?? -1,
        args: [pid, 7, limits, 0],
      })

    expect([limit(0, 0x7fff_1234_5678), limit(0, 0), limit(99, 0), limit(1, 0)]).toEqual(Array(4).fill(ALLOW))
    expect([1, 99, -1].map((pid) => limit(pid, 0x7fff_1234_5678))).toEqual(Array(3).fill(refused(1)))
    expect([limit(5, 0x7fff_0000_0000), limit(5, 1)]).toEqual([refused(1), refused(1)])
  })

  const MODES = [0o4755, 0o2755, 0o6777, 0o104_644, 0xdead_0000_4755]
  const CREATING = [0o100, 0o101, 0o102]
  const TEMPORARY = [0o20_200_000, 0o20_040_000, 0o20_200_002, 0o20_200_102]
  const has = (name: SyscallName) => syscallNumber(arch, name) !== undefined

  const SETS_MODE: [SyscallName, number][] = [
    ...([
      ['chmod', 1],
      ['fchmod', 1],
      ['creat', 1],
      ['mknod', 1],
    ] as [SyscallName, number][]),
    ...([
      ['fchmodat', 2],
      ['fchmodat2', 2],
      ['mknodat', 2],
    ] as [SyscallName, number][]),
  ]
  it.each(SETS_MODE.filter(([name]) => has(name)))('rejects set-ID modes in %s', (name, index) => {
    const withMode = (mode: number) => call(name, ...Array<number>(index).fill(7), mode)

    expect(new Set(MODES.map(withMode))).toEqual(new Set([refused(1)]))
    expect(new Set([0o755, 0o1777, 0o100_644].map(withMode))).toEqual(new Set([ALLOW]))
  })

  const OPENS: [SyscallName, number][] = [
    ['open', 1],
    ['openat', 2],
  ]
  it.each(OPENS.filter(([name]) => has(name)))(
    'checks the mode of %s only if it creates a file',
    (name, index) => {
      const open = (flags: number, mode: number) => call(name, ...Array<number>(index).fill(7), flags, mode)
      const creating = CREATING.flatMap((flags) => MODES.map((mode) => open(flags, mode)))
      const opening = [0, 1, 2, 0o200_000, 0o2_000_000].map((flags) => open(flags, 0o4755))

      expect(new Set(creating)).toEqual(new Set([refused(1)]))
      expect(new Set([...opening, ...CREATING.map((flags) => open(flags, 0o644))])).toEqual(new Set([ALLOW]))
    },
  )

  it.each(OPENS.filter(([name]) => has(name)))('rejects files without a name in %s', (name, index) => {
    const open = (flags: number, mode: number) => call(name, ...Array<number>(index).fill(7), flags, mode)

    expect(new Set(TEMPORARY.flatMap((flags) => [0o600, 0o4755].map((mode) => open(flags, mode))))).toEqual(
      new Set([refused(95)]),
    )
  })

  it('rejects linkat for an open file only where openat2 is allowed', () => {
    const permitting = seccompInstructions(arch, { permitsOpenat2: true })
    const link = (filter: readonly Instruction[], flags: number) =>
      evaluate(filter, {
        arch: AUDIT_ARCH[arch],
        nr: syscallNumber(arch, 'linkat') ?? -1,
        args: [7, 7, 7, 7, flags],
      })

    expect([0x400, 0x1000, 0x1400].map((flags) => link(permitting, flags))).toEqual(
      Array(3).fill(refused(95)),
    )
    expect([link(permitting, 0), link(program, 0), link(program, 0x400)]).toEqual(Array(3).fill(ALLOW))
  })

  it('hides openat2, whose flags and mode a filter cannot read', () => {
    expect(call('openat2')).toBe(refused(38))
  })

  it('rejects fallocate with EOPNOTSUPP', () => {
    expect(call('fallocate')).toBe(refused(95))
  })

  it('allows the set-group-ID bit for folders if permitted, and never for new files', () => {
    const permitting = seccompInstructions(arch, { permitsSetGroupId: true, permitsOpenat2: true })
    const about = (name: SyscallName, ...args: number[]) =>
      evaluate(permitting, { arch: AUDIT_ARCH[arch], nr: syscallNumber(arch, name) ?? -1, args })

    expect(about('fchmodat', 7, 7, 0o2775)).toBe(ALLOW)
    expect(about('fchmod', 7, 0o2775)).toBe(ALLOW)
    expect(about('fchmodat', 7, 7, 0o4755)).toBe(refused(1))
    expect(about('openat', 7, 7, 0o100, 0o2755)).toBe(refused(1))
    expect(about('mknodat', 7, 7, 0o2755)).toBe(refused(1))
    expect(about('openat2')).toBe(ALLOW)
  })

  it('allows everything else', () => {
    const numbers = new Set([
      ...REFUSED_SYSCALLS,
      'openat2',
      'clone',
      'clone3',
      'fallocate',
      'ioctl',
      'socket',
      'socketpair',
    ] as SyscallName[])
    const judged = new Set([...numbers].map((name) => syscallNumber(arch, name)))
    const others = Array.from({ length: 480 }, (_, nr) => nr).filter((nr) => !judged.has(nr))

    for (const nr of others) expect(evaluate(program, { arch: AUDIT_ARCH[arch], nr })).toBe(ALLOW)
  })

  it("has eight bytes per instruction and is within the kernel's limit", () => {
    expect(seccompProgram(arch)).toHaveLength(program.length * 8)
    expect(program.length).toBeLessThan(4096)
    for (const { jumpTrue, jumpFalse } of program) expect(Math.max(jumpTrue, jumpFalse)).toBeLessThan(256)
  })
})

describe('the system call filter', () => {
  it('kills a process that makes an x32 call', () => {
    const program = seccompInstructions('x64')

    expect(evaluate(program, { arch: AUDIT_ARCH.x64, nr: 0x4000_0000 })).toBe(KILL)
    expect(evaluate(program, { arch: AUDIT_ARCH.x64, nr: 0x4000_0065 })).toBe(KILL)
  })

  it('does not exist for an unknown processor', () => {
    expect(seccompProgram('riscv64')).toBeUndefined()
  })
})
