import { constants } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { type SyscallName, syscallNumber } from '../../../runtime/executors/seccomp/syscalls.ts'
import { SYSCALL_PROGRAM } from './site.ts'
import type { Subject } from './subject.ts'

const EPERM = 1
const EBADF = 9
const EFAULT = 14
const ENOSYS = 38
const EOPNOTSUPP = 95
const EAFNOSUPPORT = 97

type Call = readonly [number: number | undefined, ...args: number[]]

export function syscallCases(subject: Subject): void {
  const { arch } = process
  /** Makes one raw system call and prints its errno, or 0 on success. */
  const commandFor = ([number, ...args]: Call, program = subject.site.syscallProgram) =>
    `${program} ${number} ${args.join(' ')}`
  const isKnown = arch === 'x64' || arch === 'arm64'
  const numberOf = (name: SyscallName) => (isKnown ? syscallNumber(arch, name) : undefined)

  describe.skipIf(!(subject.supports.syscallFilter && isKnown))('system call filter', () => {
    const errnoOf = async (call: Call) => Number((await subject.run(commandFor(call))).stdout)
    const errnoUnisolated = async (call: Call) =>
      Number((await subject.runUnisolated(commandFor(call, SYSCALL_PROGRAM))).stdout)

    it('is loaded', async () => {
      expect((await subject.run('grep ^Seccomp: /proc/self/status')).stdout).toBe('Seccomp:\t2\n')
    })

    const CALLS: readonly (readonly [name: SyscallName, args: readonly number[]])[] = [
      ['ptrace', [0, 0, 0, 0]],
      ['keyctl', [0, -3, 0]],
      ['add_key', [0, 0, 0, 0, -3]],
      ['mount', [0, 0, 0, 0, 0]],
      ['open_tree', [-1, 0, 0]],
      ['fsopen', [0, 0]],
      ['move_mount', [-1, 0, -1, 0, 0]],
      ['unshare', [0]],
      ['setns', [-1, 0]],
      ['bpf', [99, 0, 0]],
      ['perf_event_open', [0, 0, -1, -1, 0]],
      ['io_uring_setup', [0, 0]],
      ['io_uring_enter', [-1, 0, 0, 0, 0, 0]],
      ['process_vm_readv', [1, 0, 0, 0, 0, 0]],
      ['pidfd_getfd', [-1, 0, 0]],
      ['kexec_load', [0, 0, 0, -1]],
      ['finit_module', [-1, 0, 0]],
    ]
    // A process that filters itself keeps Node's io_uring ring. No command can create one.
    const refused = CALLS.filter(([name]) => subject.supports.ownRoot || name !== 'io_uring_enter')
    it.each(refused)('rejects %s', async (name, args) => {
      const call: Call = [numberOf(name), ...args]

      expect(await errnoOf(call)).toBe(EPERM)
    })

    it('reports that no file system can reserve space, which would fill a disk at once', async () => {
      expect(await errnoOf([numberOf('fallocate'), 1, 0, 0, 4096])).toBe(EOPNOTSUPP)
    })

    it('rejects calls that work without it', async () => {
      const [ptrace, keyctl, unshare] = (['ptrace', 'keyctl', 'unshare'] as const).map(numberOf)

      expect(await errnoUnisolated([ptrace, 0, 0, 0, 0])).toBe(0)
      expect(await errnoUnisolated([keyctl, 0, -3, 0])).not.toBe(EPERM)
      expect(await errnoUnisolated([unshare, 0])).toBe(0)
    })

    it('allows ordinary calls', async () => {
      const getpid = arch === 'x64' ? 39 : 172

      expect(await errnoOf([getpid])).toBe(0)
    })

    it('hides clone3, whose flags a filter cannot read, so that libraries use clone', async () => {
      expect(await errnoOf([numberOf('clone3'), 0, 0])).toBe(ENOSYS)
    })

    const AT_FDCWD = -100
    const creates = 0o100
    const SETS_USER_ID: readonly (readonly [
      name: SyscallName,
      args: readonly number[],
      otherwise: number,
    ])[] = [
      ['chmod', [0, 0o4755], EFAULT],
      ['fchmod', [-1, 0o4755], EBADF],
      ['fchmodat', [AT_FDCWD, 0, 0o4755], EFAULT],
      ['open', [0, creates, 0o4755], EFAULT],
      ['openat', [AT_FDCWD, 0, creates, 0o4755], EFAULT],
      ['creat', [0, 0o4755], EFAULT],
      ['mknod', [0, 0o104_755, 0], EFAULT],
      ['mknodat', [AT_FDCWD, 0, 0o104_755, 0], EFAULT],
    ]
    it.each(SETS_USER_ID.filter(([name]) => numberOf(name) !== undefined))(
      'rejects a set-user-ID bit in %s',
      async (name, args, otherwise) => {
        const call: Call = [numberOf(name), ...args]

        expect(await errnoOf(call)).toBe(EPERM)
        expect(await errnoUnisolated(call)).toBe(otherwise)
      },
    )

    it('rejects files without a name, which could hide what a command writes', async () => {
      const temporary = 0o20_000_000 | constants.O_DIRECTORY | constants.O_WRONLY
      const call: Call = [numberOf('openat'), AT_FDCWD, 0, temporary, 0o600]

      expect(await errnoOf(call)).toBe(EOPNOTSUPP)
      expect(await errnoUnisolated(call)).toBe(EFAULT)
    })

    it.skipIf(!subject.isLocal)('lets programs fall back to a temporary file with a name', async () => {
      const unnamed = `const fs = require("fs"), { O_DIRECTORY, O_RDWR } = fs.constants
        try { fs.openSync(".", 0o20000000 | O_DIRECTORY | O_RDWR); console.log("opened") }
        catch ({ code }) { console.log(code) }`
      const fallback = `import tempfile; f = tempfile.TemporaryFile(dir="."); print(f.write(b"text"))`

      expect((await subject.run(`node -e '${unnamed}'`)).stdout).toBe('ENOTSUP\n')
      expect((await subject.runUnisolated(`node -e '${unnamed}'`)).stdout).toBe('opened\n')
      const { stdout } = await subject.run(`! command -v python3 >&2 || python3 -c '${fallback}'`)
      expect(['4\n', '']).toContain(stdout)
    })

    // A pod's runner needs it to open the workspace.
    it.skipIf(!subject.supports.ownRoot)(
      'hides openat2, whose flags and mode a filter cannot read',
      async () => {
        const call: Call = [numberOf('openat2'), AT_FDCWD, 0, 0, 0]

        expect(await errnoOf(call)).toBe(ENOSYS)
        expect(await errnoUnisolated(call)).not.toBe(ENOSYS)
      },
    )

    it.skipIf(subject.supports.ownRoot)(
      'rejects linkat for an open file, because openat2 is allowed',
      async () => {
        const follow = 0x400
        const call: Call = [numberOf('linkat'), AT_FDCWD, 0, AT_FDCWD, 0, follow]

        expect(await errnoOf(call)).toBe(EOPNOTSUPP)
        expect(await errnoUnisolated(call)).toBe(EFAULT)
      },
    )

    it('rejects new namespaces through clone', async () => {
      const newUser = 0x1000_0000

      expect(await errnoOf([numberOf('clone'), newUser, 0, 0, 0, 0])).toBe(EPERM)
    })

    it.each([
      ['typing into a terminal', 0x5412],
      ['pasting into a console', 0x541c],
      ['typing into a terminal with a disguised number', 0x1_0000_5412],
    ])('rejects %s', async (_what, request) => {
      const call: Call = [numberOf('ioctl'), 0, request, 0]

      expect(await errnoOf(call)).toBe(EPERM)
      expect(await errnoUnisolated(call)).not.toBe(EPERM)
    })

    it('allows only socket families that a network namespace isolates', async () => {
      const [vsock, packet, alg] = [40, 17, 38]
      const [unix, internet, stream] = [1, [2, 10], 1]
      const [refused, offered] = subject.supports.ownNetwork
        ? [
            [vsock, packet, alg],
            [unix, ...internet],
          ]
        : [[vsock, packet, alg, ...internet], [unix]]
      const errnosOf = (families: readonly number[]) =>
        Promise.all(families.map((family) => errnoOf([numberOf('socket'), family, stream, 0])))

      expect(new Set(await errnosOf(refused))).toEqual(new Set([EAFNOSUPPORT]))
      expect(new Set(await errnosOf(offered))).toEqual(new Set([0]))
    })

    it.skipIf(arch !== 'x64' || !subject.supports.endsForeignCalls)(
      'kills a process that makes x32 calls',
      async () => {
        const outcome = await subject.run(`${commandFor([0x4000_0027])}; echo $?`)

        expect(outcome.stdout).toBe('159\n')
      },
    )
  })
}
