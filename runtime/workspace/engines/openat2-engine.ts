import { constants } from 'node:fs'
import { constants as os } from 'node:os'
import koffi from 'koffi'
import type { PathEngine, Root } from './path-engine.ts'

/** From linux/openat2.h. The number is the same on all architectures. */
const SYS_OPENAT2 = 437
const RESOLVE_NO_MAGICLINKS = 0x02n
const RESOLVE_NO_SYMLINKS = 0x04n
const RESOLVE_BENEATH = 0x08n
const RESOLVE = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS
const OPEN_HOW_BYTES = 24
/** Not in Node's constants. The value is the same on all architectures that Node supports. */
const O_CLOEXEC = 0o2000000

const ERRNO_NAMES = new Map(Object.entries(os.errno).map(([name, number]) => [number, name]))

type Openat2 = (
  ...args: [call: number, fd: number, path: string, how: BigUint64Array, bytes: number]
) => number

/**
 * The engine that lets the kernel resolve the whole path in one call, below the root and without following
 * links.
 */
export function createOpenat2Engine(root: Root): PathEngine {
  const syscall: Openat2 = koffi.load(null).func('long syscall(long, int, str, void *, size_t)')
  return {
    name: 'openat2',
    open(path, flags, mode = 0) {
      const creating = (flags & constants.O_CREAT) !== 0
      const how = new BigUint64Array([BigInt(flags | O_CLOEXEC), creating ? BigInt(mode) : 0n, RESOLVE])
      const fd = syscall(SYS_OPENAT2, root.fd, path.text, how, OPEN_HOW_BYTES)
      if (fd >= 0) return fd
      throw systemError(koffi.errno(), path.text)
    },
  }
}

function systemError(errno: number, path: string): Error {
  const code = ERRNO_NAMES.get(errno) ?? `E${errno}`
  return Object.assign(new Error(`${code}: openat2 '${path}'`), { code, errno: -errno })
}
