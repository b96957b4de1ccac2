import { closeSync, fstatSync, lstatSync, openSync, readlinkSync } from 'node:fs'
import { normalize } from 'node:path'

/** Not in Node's constants. The value is the same on all architectures that Node supports. */
const O_PATH = 0o10_000_000

/** A file or folder of the host that is held open. Its inode number cannot be reused while it is held. */
export interface HeldPath {
  /** Its path without links at the time it was opened. */
  readonly real: string
  /** Device and inode, in the format of `stat -c %d:%i`. */
  readonly identity: string
  readonly isFolder: boolean
  release(): void
}

/** Opens a path without read access, following links. Throws the kernel's error. */
export function holdPath(path: string): HeldPath {
  const fd = openSync(path, O_PATH)
  try {
    const stats = fstatSync(fd, { bigint: true })
    return {
      real: readlinkSync(`/proc/self/fd/${fd}`),
      identity: identityOf(stats),
      isFolder: stats.isDirectory(),
      release: () => closeSync(fd),
    }
  } catch (error) {
    closeSync(fd)
    throw error
  }
}

/** Returns device and inode of a path. A link is not followed. */
export const pathIdentity = (path: string): string => identityOf(lstatSync(path, { bigint: true }))

const identityOf = ({ dev, ino }: { readonly dev: bigint; readonly ino: bigint }) => `${dev}:${ino}`

/** Removes `.`, `..`, double slashes and a final slash from a path. */
export function normalPath(path: string): string {
  const normal = normalize(path)
  return normal.length > 1 && normal.endsWith('/') ? normal.slice(0, -1) : normal
}
