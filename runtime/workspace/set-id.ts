import {
  type BigIntStats,
  chmodSync,
  closeSync,
  constants,
  type Dirent,
  fstatSync,
  lstatSync,
  opendirSync,
  openSync,
} from 'node:fs'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { errnoOf } from '../kit/errors.ts'
import type { Root } from './engines/path-engine.ts'
import { FileFault } from './file-fault.ts'
import { handlePath, O_PATH } from './handles.ts'

const { S_IFMT, S_IFREG, S_IFDIR, O_DIRECTORY, O_NOFOLLOW } = constants
const SET_ID_BITS = 0o6000
const SET_GROUP_ID = 0o2000
const PERMISSION_BITS = 0o7777
const OWNER_MAY_LIST = 0o500

/** In a larger workspace the bits cannot be checked, so commands are refused. */
const MAX_NAMES = 5_000_000
const MAX_DEPTH = 1_000

/** Names between two turns of the event loop: a few milliseconds. */
const NAMES_PER_TURN = 512

/** A regular file with a set-user-ID or set-group-ID bit. */
interface SetIdFile {
  /** A handle on the file itself, valid only during the visit. */
  readonly fd: number
  readonly path: string
  readonly stats: BigIntStats
}

/** Identifies a file in its current state. Writing through a memory mapping keeps the bits but changes ctime. */
const stateOf = ({ dev, ino, ctimeNs }: BigIntStats): string => `${dev}:${ino}:${ctimeNs}`

/** The set-user-ID and set-group-ID bits in a workspace before the first command. */
export interface SetIdSurvey {
  /** Regular files with such a bit, by identity and ctime. */
  readonly files: ReadonlySet<string>
  /** Whether folders have the set-group-ID bit. Programs then set it again when they copy or change folders. */
  readonly hasSetGroupFolders: boolean
}

/** Finds set-user-ID and set-group-ID bits without changing them. */
export async function surveySetId(root: Root, signal: AbortSignal): Promise<SetIdSurvey> {
  // Opening the workspace does not wait for the survey.
  await nextTurn()
  const files = new Set<string>()
  let hasSetGroupFolders = false
  await new Walk({
    onTurn: () => signal.throwIfAborted(),
    onFile: ({ stats }) => files.add(stateOf(stats)),
    onSetGroupFolder: () => {
      hasSetGroupFolders = true
    },
  }).run(root)
  return { files, hasSetGroupFolders }
}

/**
 * Clears the bits of all regular files, except those that had them at the survey and are unchanged. Returns the
 * paths of the changed files. Folders keep their bits.
 */
export async function clearSetId(root: Root, survey: SetIdSurvey): Promise<string[]> {
  const cleared: string[] = []
  await new Walk({
    onFile: ({ fd, path, stats }) => {
      if (!survey.files.has(stateOf(stats)) && clear(fd, Number(stats.mode))) cleared.push(path)
    },
  }).run(root)
  return cleared
}

/** Files of other users are skipped: only the owner can have set the bits. */
function clear(fd: number, mode: number): boolean {
  try {
    chmodSync(handlePath(fd), mode & PERMISSION_BITS & ~SET_ID_BITS)
    return true
  } catch (error) {
    if (errnoOf(error) === 'EPERM') return false
    throw error
  }
}

interface Visitor {
  readonly onFile: (file: SetIdFile) => void
  readonly onSetGroupFolder?: () => void
  /** Called every few milliseconds. Throws to stop the walk. */
  readonly onTurn?: () => void
}

interface Folder {
  readonly fd: number
  readonly path: string
  readonly depth: number
}

/**
 * Opens every folder through its parent's handle, so no link is followed and no path is too long. Names are
 * bytes, because a name that is not valid UTF-8 must not hide a file.
 */
class Walk {
  readonly #visitor: Visitor
  #names = 0

  constructor(visitor: Visitor) {
    this.#visitor = visitor
  }

  run(root: Root): Promise<void> {
    return this.#look({ fd: root.fd, path: '.', depth: 0 })
  }

  async #enter(at: Buffer, { path, depth }: Omit<Folder, 'fd'>): Promise<void> {
    if (depth > MAX_DEPTH) throw tooLarge(`folders are nested deeper than ${MAX_DEPTH}`)
    const fd = openOrGone(at, O_PATH | O_DIRECTORY | O_NOFOLLOW)
    if (fd === undefined) return
    try {
      await this.#look({ fd, path, depth })
    } finally {
      closeSync(fd)
    }
  }

  async #look(folder: Folder): Promise<void> {
    if ((fstatSync(folder.fd).mode & SET_GROUP_ID) !== 0) this.#visitor.onSetGroupFolder?.()
    await listable(folder.fd, () => this.#list(folder))
  }

  async #list(folder: Folder): Promise<void> {
    const names = openNames(folder.fd)
    try {
      for (let entry = names?.readSync(); entry; entry = names?.readSync()) {
        await this.#count()
        await this.#visit(folder, entry)
      }
    } finally {
      names?.closeSync()
    }
  }

  #count(): Promise<void> | undefined {
    if (++this.#names > MAX_NAMES) throw tooLarge(`there are more than ${MAX_NAMES} files`)
    return this.#names % NAMES_PER_TURN === 0 ? nextTurn().then(() => this.#visitor.onTurn?.()) : undefined
  }

  #visit(folder: Folder, entry: Dirent<Buffer>): Promise<void> | undefined {
    const at = Buffer.concat([Buffer.from(`${handlePath(folder.fd)}/`), entry.name])
    const type = typeOf(entry) ?? lookedUp(at)
    if (type === S_IFREG) this.#visitFile(at, folder)
    if (type !== S_IFDIR) return undefined
    return this.#enter(at, { path: `${folder.path}/${entry.name}`, depth: folder.depth + 1 })
  }

  #visitFile(at: Buffer, { path: above }: Folder): void {
    const mode = lstatSync(at, { throwIfNoEntry: false })?.mode ?? 0
    if ((mode & SET_ID_BITS) === 0) return
    const fd = openOrGone(at, O_PATH | O_NOFOLLOW)
    if (fd === undefined) return
    try {
      const stats = fstatSync(fd, { bigint: true })
      if (!stats.isFile() || (Number(stats.mode) & SET_ID_BITS) === 0) return
      this.#visitor.onFile({ fd, path: `${above}/${at.subarray(at.lastIndexOf('/') + 1)}`, stats })
    } finally {
      closeSync(fd)
    }
  }
}

const tooLarge = (what: string) => new FileFault('too_large', what)

/** Undefined if the file system does not report the type with the name. */
function typeOf(entry: Dirent<Buffer>): number | undefined {
  if (entry.isFile()) return S_IFREG
  if (entry.isDirectory()) return S_IFDIR
  return entry.isSymbolicLink() || entry.isFIFO() || entry.isSocket() ? 0 : undefined
}

const lookedUp = (at: Buffer): number => (lstatSync(at, { throwIfNoEntry: false })?.mode ?? 0) & S_IFMT

/** Undefined if the name was deleted or replaced, or this user cannot access it. */
function openOrGone(at: Buffer, flags: number): number | undefined {
  try {
    return openSync(at, flags)
  } catch (error) {
    if (['ENOENT', 'ENOTDIR', 'ELOOP', 'EACCES'].includes(errnoOf(error) ?? '')) return undefined
    throw error
  }
}

function openNames(fd: number) {
  try {
    return opendirSync(handlePath(fd), {
      encoding: 'buffer' as BufferEncoding,
      bufferSize: 256,
    }) as unknown as {
      readSync(): Dirent<Buffer> | null
      closeSync(): void
    }
  } catch (error) {
    // A command of this user cannot look into the folder either.
    if (errnoOf(error) === 'EACCES') return undefined
    throw error
  }
}

/**
 * A command can remove the read permission from its folder to hide files. The permission is restored during the walk.
 */
async function listable(fd: number, list: () => Promise<void>): Promise<void> {
  const { mode, uid } = fstatSync(fd)
  const isClosed = (mode & OWNER_MAY_LIST) !== OWNER_MAY_LIST && uid === process.getuid?.() && uid !== 0
  if (!isClosed) return list()
  chmodSync(handlePath(fd), (mode | OWNER_MAY_LIST) & PERMISSION_BITS)
  try {
    await list()
  } finally {
    chmodSync(handlePath(fd), mode & PERMISSION_BITS)
  }
}
