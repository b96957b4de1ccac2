import { closeSync, constants, fstatSync, openSync, readFileSync, readlinkSync, type Stats } from 'node:fs'
import { open } from 'node:fs/promises'
import type { ByteName } from '../workspace/git/folder-names.ts'
import { handlePath } from '../workspace/handles.ts'
import { blobId, openBlobId, storeBlob } from './blobs.ts'
import type { ObjectFormat } from './clean-config.ts'
import type { ListedFiles } from './list-files.ts'
import { isGoneOrClosed, type TreeEntry, walkTree } from './walk-tree.ts'

export interface SnapshotFile {
  readonly mode: '100644' | '100755' | '120000'
  /** The object id of the content on disk. For very large files, device, inode, size, mode and times instead. */
  readonly id: string
  readonly bytes: number
  /** Whether the content can be read later, from this snapshot's store or from the user's objects. */
  readonly isKept: boolean
}

/** The files of a folder at one moment, by content. Ignored files are recorded only by inode data. */
export interface Snapshot {
  readonly files: ReadonlyMap<ByteName, SnapshotFile>
  readonly ignored: ReadonlyMap<ByteName, string>
  /** Why the snapshot is incomplete. */
  readonly problem?: string
}

export interface SnapshotOptions {
  readonly format: ObjectFormat
  /** Object folder for content that the user's repository does not contain. */
  readonly objects: string
  readonly isIgnored: (path: ByteName, isFolder: boolean) => boolean
  /** Whether the user's objects contain this content of the path, so that it need not be stored. */
  readonly isStored: (path: ByteName, id: string) => boolean
  /** Whether to record ignored files. */
  readonly looksAtIgnored: boolean
  /** Whether the content of a file is stored. @default all of them */
  readonly keeps?: (path: ByteName, id: string) => boolean
  readonly signal?: AbortSignal | undefined
  readonly limits?: Partial<typeof SNAPSHOT_LIMITS>
}

export const SNAPSHOT_LIMITS = {
  maxFiles: 500_000,
  /** Largest content that is stored per file, for the diff. */
  maxKeptFileBytes: 16_777_216,
  /** Largest total content that is stored. */
  maxKeptBytes: 536_870_912,
  /** Larger files are compared by inode data instead of content. */
  maxHashedBytes: 268_435_456,
  timeoutMs: 60_000,
}

const READ = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK
const PIECE_BYTES = 1_048_576

/** Takes a snapshot. `root` is an open directory handle. */
export async function takeSnapshot(root: number, options: SnapshotOptions): Promise<Snapshot> {
  const taking = new Taking(options)
  const ends = performance.now() + taking.limits.timeoutMs
  let problem: string | undefined
  const isOver = () => {
    if (taking.files.size + taking.ignored.size >= taking.limits.maxFiles)
      problem ??= `the folder has more than ${taking.limits.maxFiles} files`
    if (performance.now() > ends)
      problem ??= `taking a snapshot of the folder took longer than ${taking.limits.timeoutMs / 1000} s`
    return problem !== undefined
  }
  await walkTree(root, {
    signal: options.signal,
    onClosed: () => undefined,
    onFolder: ({ path }) => !isOver() && taking.enters(path),
    onEntry: async (entry) => {
      if (!isOver()) await taking.add(entry)
    },
  })
  return { files: taking.files, ignored: taking.ignored, ...(problem !== undefined && { problem }) }
}

class Taking {
  readonly files = new Map<ByteName, SnapshotFile>()
  readonly ignored = new Map<ByteName, string>()
  readonly limits: typeof SNAPSHOT_LIMITS
  readonly #options: SnapshotOptions
  readonly #ignoredFolders = new Set<ByteName>()
  #keptBytes = 0

  constructor(options: SnapshotOptions) {
    this.#options = options
    this.limits = { ...SNAPSHOT_LIMITS, ...options.limits }
  }

  enters(path: ByteName): boolean {
    const isIgnored = this.#isBelowIgnored(path) || this.#options.isIgnored(path, true)
    if (isIgnored) this.#ignoredFolders.add(path)
    return !isIgnored || this.#options.looksAtIgnored
  }

  async add(entry: TreeEntry): Promise<void> {
    const { path, stats } = entry
    if (!stats.isFile() && !stats.isSymbolicLink()) return
    const isIgnored = this.#isBelowIgnored(path) || this.#options.isIgnored(path, false)
    if (!isIgnored) return this.#addContent(entry)
    if (this.#options.looksAtIgnored) this.ignored.set(path, factsOf(entry))
  }

  async #addContent(entry: TreeEntry): Promise<void> {
    try {
      if (entry.stats.isSymbolicLink()) await this.#addLink(entry)
      else await this.#addFile(entry)
    } catch (error) {
      if (!isGoneOrClosed(error)) throw error
    }
  }

  async #addLink({ path, at }: TreeEntry): Promise<void> {
    const target = readlinkSync(at, { encoding: 'buffer' })
    const id = blobId(this.#options.format, target)
    const isKept = await this.#keep(path, id, target)
    this.files.set(path, { mode: '120000', id, bytes: target.length, isKept })
  }

  async #addFile(entry: TreeEntry): Promise<void> {
    const { path } = entry
    const file = openSync(entry.at, READ)
    try {
      const stats = fstatSync(file)
      if (!stats.isFile()) return
      const mode = stats.mode & 0o100 ? '100755' : '100644'
      if (stats.size > this.limits.maxHashedBytes)
        this.files.set(path, { mode, id: factsOf(entry), bytes: stats.size, isKept: false })
      else this.files.set(path, { mode, bytes: stats.size, ...(await this.#read(path, file, stats)) })
    } finally {
      closeSync(file)
    }
  }

  async #read(path: ByteName, file: number, { size }: Stats): Promise<Pick<SnapshotFile, 'id' | 'isKept'>> {
    const { format, isStored } = this.#options
    if (size > this.limits.maxKeptFileBytes) {
      const id = await idOfLarge(format, file, size)
      return { id, isKept: isStored(path, id) }
    }
    const content = readFileSync(file)
    const id = blobId(format, content)
    return { id, isKept: await this.#keep(path, id, content) }
  }

  async #keep(path: ByteName, id: string, content: Uint8Array): Promise<boolean> {
    const { isStored, objects, keeps = () => true } = this.#options
    if (isStored(path, id)) return true
    if (!keeps(path, id)) return false
    if (this.#keptBytes + content.length > this.limits.maxKeptBytes) return false
    this.#keptBytes += content.length
    await storeBlob(objects, id, content)
    return true
  }

  #isBelowIgnored(path: ByteName): boolean {
    const end = path.lastIndexOf('/')
    return end > 0 && this.#ignoredFolders.has(path.slice(0, end))
  }
}

/** Inode data that changes with every write: only the kernel sets ctime. */
const factsOf = ({ stats }: TreeEntry): string =>
  [stats.dev, stats.ino, stats.size, stats.mode, stats.mtimeNs, stats.ctimeNs].join(':')

async function idOfLarge(format: ObjectFormat, file: number, size: number): Promise<string> {
  const id = openBlobId(format, size)
  await using handle = await open(handlePath(file), 'r')
  const piece = Buffer.allocUnsafe(PIECE_BYTES)
  for (;;) {
    const { bytesRead } = await handle.read(piece, 0, PIECE_BYTES)
    if (bytesRead === 0) return id.digest()
    id.update(piece.subarray(0, bytesRead))
  }
}

/** Returns whether git ignores a path, according to git's listing. */
export const ignoredIn =
  ({ ignored }: Pick<ListedFiles, 'ignored'>): SnapshotOptions['isIgnored'] =>
  (path, isFolder) =>
    isFolder ? ignored.folders.has(path) : ignored.files.has(path)

/**
 * The same for the end of a run, which may have added ignore rules to hide its changes: a path that was not
 * ignored before the run is never ignored.
 */
export function ignoredSince(
  { ignored }: Pick<ListedFiles, 'ignored'>,
  base: Pick<Snapshot, 'files'>,
): SnapshotOptions['isIgnored'] {
  const kept = new Set([...base.files.keys()].flatMap(foldersAbove))
  return (path, isFolder) =>
    isFolder
      ? ignored.folders.has(path) && !kept.has(path)
      : !base.files.has(path) &&
        (ignored.files.has(path) || foldersAbove(path).some((folder) => ignored.folders.has(folder)))
}

function foldersAbove(path: ByteName): ByteName[] {
  const folders: ByteName[] = []
  for (let end = path.lastIndexOf('/'); end > 0; end = path.lastIndexOf('/', end - 1))
    folders.push(path.slice(0, end))
  return folders
}

export const snapshotToJson = ({ files, ignored, problem }: Snapshot): string =>
  JSON.stringify({ files: [...files], ignored: [...ignored], problem })

export function snapshotFromJson(text: string): Snapshot {
  const { files, ignored, problem } = JSON.parse(text)
  return { files: new Map(files), ignored: new Map(ignored), ...(problem !== undefined && { problem }) }
}
