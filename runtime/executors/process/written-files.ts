import { constants, type Stats } from 'node:fs'
import { type FileHandle, lstat, open, opendir, readlink } from 'node:fs/promises'
import { type Amount, isOver } from './disk.ts'

export interface Search {
  readonly folders: readonly string[]
  /** Only files of this file system. */
  readonly device: number
  /** Milliseconds since 1970. */
  readonly since: number
  /** The search ends when they are reached. */
  readonly limits: Amount
  /** Ends the search before it is complete. */
  readonly signal: AbortSignal
}

export interface Written extends Amount {
  /** Whether every file was looked at, or enough of them for a limit. */
  readonly isComplete: boolean
}

const BLOCK_BYTES = 512
const SLASH = Buffer.from('/')

/** Links are not followed: a command could replace a folder by one while the search runs. */
const FOLDER = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW

/**
 * Counts the files whose content or attributes have changed since a time. No program can set the time of that change. Names
 * are bytes, because a program may use any.
 */
export async function writtenFiles(search: Search): Promise<Written> {
  const counter = new Counter(search)
  const left: Buffer[] = []
  for (const root of search.folders) {
    await counter.takeRoot(root, left)
    for (let folder = left.pop(); folder !== undefined && !counter.isDone; folder = left.pop())
      await counter.take(folder, left)
  }
  return counter.written
}

const isGone = (error: unknown): boolean => (error as NodeJS.ErrnoException).code === 'ENOENT'

/** Where an open folder is now. */
const placeOf = ({ fd }: FileHandle): Promise<Buffer> =>
  readlink(`/proc/self/fd/${fd}`, { encoding: 'buffer' })

class Counter {
  #bytes = 0
  #files = 0
  #isComplete = true
  readonly #search: Search
  /** Files with several names, by inode. */
  readonly #linked = new Set<number>()

  constructor(search: Search) {
    this.#search = search
  }

  get written(): Written {
    const amount = { bytes: this.#bytes, files: this.#files }
    const isEnough = isOver(amount, this.#search.limits)
    return { ...amount, isComplete: isEnough || (this.#isComplete && !this.#search.signal.aborted) }
  }

  get isDone(): boolean {
    return (
      this.#search.signal.aborted || isOver({ bytes: this.#bytes, files: this.#files }, this.#search.limits)
    )
  }

  takeRoot(path: string, left: Buffer[]): Promise<void> {
    return this.#open(Buffer.from(path), async (folder) => this.#list(folder, await placeOf(folder), left))
  }

  /** Counts the entries of a folder, and adds the folders in it to those that are left. */
  take(path: Buffer, left: Buffer[]): Promise<void> {
    return this.#open(path, async (folder) => {
      // A part of the path may lead somewhere else now.
      if (path.equals(await placeOf(folder))) await this.#list(folder, path, left)
    })
  }

  /** What was deleted or replaced in the meantime needs no space. What cannot be read makes the count incomplete. */
  async #open(path: Buffer, use: (folder: FileHandle) => Promise<void>): Promise<void> {
    let folder: FileHandle | undefined
    try {
      folder = await open(path, FOLDER)
      await use(folder)
    } catch (error) {
      if (!isGone(error)) this.#isComplete = false
    } finally {
      await folder?.close()
    }
  }

  async #list({ fd }: FileHandle, path: Buffer, left: Buffer[]): Promise<void> {
    const opened = `/proc/self/fd/${fd}/`
    // The type of the options knows no bytes; the names are bytes all the same.
    const entries = await opendir(opened, { encoding: 'buffer' as BufferEncoding })
    for await (const entry of entries) {
      if (this.isDone) return
      const name = entry.name as unknown as Buffer
      const isFolder = await this.#look(Buffer.concat([Buffer.from(opened), name]))
      if (isFolder) left.push(Buffer.concat([path, SLASH, name]))
    }
  }

  /** Counts an entry. Returns whether it is a folder to look into. */
  async #look(path: Buffer): Promise<boolean> {
    try {
      const found = await lstat(path)
      if (found.dev !== this.#search.device) return false
      if (found.ctimeMs >= this.#search.since && !this.#linked.has(found.ino)) this.#add(found)
      return found.isDirectory()
    } catch (error) {
      if (!isGone(error)) this.#isComplete = false
      return false
    }
  }

  #add(found: Stats): void {
    if (found.nlink > 1 && !found.isDirectory()) this.#linked.add(found.ino)
    this.#files += 1
    this.#bytes += found.blocks * BLOCK_BYTES
  }
}
