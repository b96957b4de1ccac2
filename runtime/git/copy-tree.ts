import {
  chmodSync,
  closeSync,
  constants,
  copyFileSync,
  fchmodSync,
  fstatSync,
  futimesSync,
  mkdirSync,
  openSync,
  readlinkSync,
  readSync,
  type Stats,
  symlinkSync,
  writeSync,
} from 'node:fs'
import { copyFile, statfs } from 'node:fs/promises'
import { errnoOf, SandboxError } from '../kit/errors.ts'
import { atFolder, type ByteName, shownPath } from '../workspace/git/folder-names.ts'
import { handlePath } from '../workspace/handles.ts'
import { isGoneOrClosed, type TreeEntry, walkTree } from './walk-tree.ts'

export interface CopyLimits {
  readonly maxEntries: number
  readonly maxBytes: number
}

export interface CopiedTree {
  readonly files: number
  readonly bytes: number
  /** Paths that this user cannot read and that the copy omits: the count, and up to 16 names. */
  readonly unreadable: { readonly count: number; readonly names: readonly string[] }
}

const READ = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK
const NEW = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW
/** Excludes set-user-ID, set-group-ID and sticky bits. */
const PERMISSION_BITS = 0o777
/** Content up to this size is copied through memory, which is faster than handing it to another thread. */
const SMALL_BYTES = 1_048_576
const MAX_NAMES = 16
/** Disk space that a copy must leave free. */
const SPARE_BYTES = 1_073_741_824

/**
 * Copies a folder without git's own files. Symbolic links are copied as links; sockets and devices are omitted.
 * Uses reflinks if the file system supports them. `root` and `copy` are open directory handles.
 */
export async function copyTree(
  root: number,
  copy: number,
  { limits, signal }: { readonly limits: CopyLimits; readonly signal?: AbortSignal | undefined },
): Promise<CopiedTree> {
  const { bavail, bsize } = await statfs(handlePath(copy))
  const copying = new Copying(copy, limits, bavail * bsize - SPARE_BYTES)
  await walkTree(root, {
    signal,
    onClosed: (path) => copying.leaveOut(path),
    onFolder: (entry) => copying.addFolder(entry),
    onEntry: (entry) => copying.addEntry(entry),
  })
  return copying.finish()
}

class Copying {
  readonly #copy: number
  readonly #limits: CopyLimits
  readonly #folders: { path: ByteName; mode: number }[] = []
  readonly #unreadable = { count: 0, names: [] as string[] }
  readonly #buffer = Buffer.allocUnsafe(SMALL_BYTES)
  #free: number
  /** Whether the file system supports reflinks. Unknown until the first file is copied. */
  #shares: boolean | undefined
  #entries = 0
  #bytes = 0

  constructor(copy: number, limits: CopyLimits, free: number) {
    this.#copy = copy
    this.#limits = limits
    this.#free = free
  }

  leaveOut(path: ByteName): void {
    if (this.#unreadable.count++ < MAX_NAMES) this.#unreadable.names.push(shownPath(path))
  }

  addFolder({ path, stats }: TreeEntry): boolean {
    this.#count(0)
    mkdirSync(atFolder(this.#copy, path), { mode: 0o700 })
    this.#folders.push({ path, mode: Number(stats.mode) & PERMISSION_BITS })
    return true
  }

  async addEntry(entry: TreeEntry): Promise<void> {
    try {
      if (entry.stats.isSymbolicLink()) this.#addLink(entry)
      else if (entry.stats.isFile()) await this.#addFile(entry)
    } catch (error) {
      if (!isGoneOrClosed(error)) throw error
      this.leaveOut(entry.path)
    }
  }

  finish(): CopiedTree {
    // Modes are set last, deepest folder first, because a folder without write permission cannot be filled.
    for (const { path, mode } of this.#folders.reverse()) chmodSync(atFolder(this.#copy, path), mode | 0o700)
    return { files: this.#entries, bytes: this.#bytes, unreadable: this.#unreadable }
  }

  #addLink({ path, at }: TreeEntry): void {
    this.#count(0)
    symlinkSync(readlinkSync(at, { encoding: 'buffer' }), atFolder(this.#copy, path))
  }

  async #addFile({ path, at }: TreeEntry): Promise<void> {
    const file = openSync(at, READ)
    try {
      const stats = fstatSync(file)
      if (!stats.isFile()) return
      this.#count(stats.size)
      const to = atFolder(this.#copy, path)
      if (this.#share(file, to)) return setFacts(to, stats)
      this.#free -= stats.size
      if (this.#free < 0) throw tooLarge('more than the free disk space')
      if (stats.size > SMALL_BYTES) {
        await copyFile(handlePath(file), to, constants.COPYFILE_EXCL)
        setFacts(to, stats)
      } else this.#write(file, to, stats)
    } finally {
      closeSync(file)
    }
  }

  /** Tries a reflink. Returns false if the file system does not support it. */
  #share(file: number, to: Buffer): boolean {
    if (this.#shares === false) return false
    try {
      copyFileSync(handlePath(file), to, constants.COPYFILE_FICLONE_FORCE | constants.COPYFILE_EXCL)
      this.#shares = true
      return true
    } catch (error) {
      if (!CANNOT_SHARE.includes(errnoOf(error) ?? '')) throw error
      this.#shares ??= false
      return false
    }
  }

  #write(file: number, to: Buffer, stats: Stats): void {
    const target = openSync(to, NEW, 0o600)
    try {
      for (;;) {
        const bytes = readSync(file, this.#buffer, 0, SMALL_BYTES, null)
        if (bytes === 0) break
        for (let done = 0; done < bytes; ) done += writeSync(target, this.#buffer, done, bytes - done)
      }
      fchmodSync(target, modeOf(stats))
      futimesSync(target, stats.atime, stats.mtime)
    } finally {
      closeSync(target)
    }
  }

  #count(bytes: number): void {
    const { maxEntries, maxBytes } = this.#limits
    this.#entries += 1
    this.#bytes += bytes
    if (this.#entries > maxEntries) throw tooLarge(`more than ${maxEntries} files`)
    if (this.#bytes > maxBytes) throw tooLarge(`more than ${maxBytes} bytes`)
  }
}

const CANNOT_SHARE = ['ENOTSUP', 'EOPNOTSUPP', 'EXDEV', 'EINVAL', 'ENOSYS', 'ENOTTY']

const tooLarge = (what: string) =>
  new SandboxError(
    'workspace_invalid',
    `an isolated copy of the folder would take ${what}. Work in the folder itself with --in-place, or name a smaller one`,
  )

/** The owner must be able to read and replace every copied file. */
const modeOf = ({ mode }: Stats) => (mode & PERMISSION_BITS) | 0o600

/** Git compares timestamps, so an unchanged file must keep its own. */
function setFacts(to: Buffer, stats: Stats): void {
  const file = openSync(to, constants.O_RDONLY | constants.O_NOFOLLOW)
  try {
    fchmodSync(file, modeOf(stats))
    futimesSync(file, stats.atime, stats.mtime)
  } finally {
    closeSync(file)
  }
}
