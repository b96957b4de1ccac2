import { closeSync, constants, fstatSync, openSync, readFileSync, readlinkSync, type Stats } from 'node:fs'
import { open } from 'node:fs/promises'
import type { ByteName } from '../workspace/git/folder-names.ts'
import { handlePath } from '../workspace/handles.ts'
import { blobId, openBlobId, storeBlob } from './blobs.ts'
import type { ObjectFormat } from './clean-config.ts'
import type { ListedFiles } from './list-files.ts'
import { isGoneOrClosed, type TreeEntry, walkTree } from './walk-tree.ts'

/** A file as it was at one moment. */
export interface SnapshotFile {
  readonly mode: '100644' | '100755' | '120000'
  /** The id of its content as it is on disk; of a very large file the facts of its inode. */
  readonly id: string
  readonly bytes: number
  /** Whether its content can be read later: from the store of this snapshot, or from the user's objects. */
  readonly isKept: boolean
}

/** The files of a folder at one moment, by content. What git ignores is known by the facts of its inodes alone. */
export interface Snapshot {
  readonly files: ReadonlyMap<ByteName, SnapshotFile>
  readonly ignored: ReadonlyMap<ByteName, string>
  /** Why the folder was not looked through as a whole. */
  readonly problem?: string
}

export interface SnapshotOptions {
  readonly format: ObjectFormat
  /** A folder of git's objects, for content that the user's own do not have. */
  readonly objects: string
  /** Whether a path is one that git ignores. */
  readonly isIgnored: (path: ByteName, isFolder: boolean) => boolean
  /** Whether the user's objects have this content for the path, so that it need not be kept. */
  readonly isStored: (path: ByteName, id: string) => boolean
  /** Whether to look at files that git ignores. */
  readonly looksAtIgnored: boolean
  /** Whether the content of a file is to be kept. @default all of them */
  readonly keeps?: (path: ByteName, id: string) => boolean
  readonly signal?: AbortSignal | undefined
  readonly limits?: Partial<typeof SNAPSHOT_LIMITS>
}

export const SNAPSHOT_LIMITS = {
  maxFiles: 500_000,
  /** Content of one file that is kept, so that a difference can be shown. */
  maxKeptFileBytes: 16_777_216,
  /** Content that is kept in all. */
  maxKeptBytes: 536_870_912,
  /** Files above this size are told apart by the facts of their inodes. */
  maxHashedBytes: 268_435_456,
  /** How long it may take. */
  timeoutMs: 60_000,
}

const READ = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK
const PIECE_BYTES = 1_048_576

/** Looks through a folder; `root` is a handle on it. */
export async function takeSnapshot(root: number, options: SnapshotOptions): Promise<Snapshot> {
  const taking = new Taking(options)
  const ends = performance.now() + taking.limits.timeoutMs
  let problem: string | undefined
  const isOver = () => {
    if (taking.files.size + taking.ignored.size >= taking.limits.maxFiles)
      problem ??= `the folder has more than ${taking.limits.maxFiles} files`
    if (performance.now() > ends)
      problem ??= `the folder could not be looked through in ${taking.limits.timeoutMs / 1000} s`
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

/** What changes with any write to a file: nobody but the kernel sets the time of the last change of an inode. */
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

/** Whether a path is one that git ignores, by what git listed. */
export const ignoredIn =
  ({ ignored }: Pick<ListedFiles, 'ignored'>): SnapshotOptions['isIgnored'] =>
  (path, isFolder) =>
    isFolder ? ignored.folders.has(path) : ignored.files.has(path)

/**
 * The same at the end of a run, which may have written ignore rules to hide what it changed: what was not ignored
 * before it never is.
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

/** A snapshot as JSON, for a file of the service. */
export const snapshotToJson = ({ files, ignored, problem }: Snapshot): string =>
  JSON.stringify({ files: [...files], ignored: [...ignored], problem })

export function snapshotFromJson(text: string): Snapshot {
  const { files, ignored, problem } = JSON.parse(text)
  return { files: new Map(files), ignored: new Map(ignored), ...(problem !== undefined && { problem }) }
}
