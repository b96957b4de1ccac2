import { closeSync, fstatSync, lstatSync, openSync, readlinkSync } from 'node:fs'
import { normalize } from 'node:path'

/** Not among Node's constants; the same on the architectures that Node runs on. */
const O_PATH = 0o10_000_000

/** A file or folder of the host that is held open. While it is held, its inode number cannot name anything else. */
export interface HeldPath {
  /** Its path without links, at the moment it was opened. */
  readonly real: string
  /** Device and inode, as `stat -c %d:%i` prints them. */
  readonly identity: string
  readonly isFolder: boolean
  release(): void
}

/** Opens what a path leads to, without reading it. Throws what the kernel reports. */
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

/** Device and inode of what a path names, a link itself included. */
export const pathIdentity = (path: string): string => identityOf(lstatSync(path, { bigint: true }))

const identityOf = ({ dev, ino }: { readonly dev: bigint; readonly ino: bigint }) => `${dev}:${ino}`

/** A path without `.`, `..`, double slashes and a slash at its end. */
export function normalPath(path: string): string {
  const normal = normalize(path)
  return normal.length > 1 && normal.endsWith('/') ? normal.slice(0, -1) : normal
}
