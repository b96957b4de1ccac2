import { constants, type Stats } from 'node:fs'
import { type FileHandle, lstat, open, opendir } from 'node:fs/promises'
import { errnoOf } from '../../kit/errors.ts'
import { type Amount, isOver } from './disk.ts'

export interface Search {
  readonly folders: readonly string[]
  /** Only files of this file system are counted. */
  readonly device: number
  /** Milliseconds since 1970. */
  readonly since: number
  /** The search ends when the count reaches one of these limits. */
  readonly limits: Amount
  /** Ends the search before it is complete. */
  readonly signal: AbortSignal
}

export interface Written extends Amount {
  /** Whether every file was counted, or enough of them for a limit. */
  readonly isComplete: boolean
  /** Why the count is incomplete, if moved or deleted folders are the only reason. */
  readonly onlyVanished?: boolean
}

const BLOCK_BYTES = 512

/** Links are not followed: a command could replace a folder by a link while the search runs. */
const FOLDER = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW

/** The search holds two descriptors per level. Deeper folders make the count incomplete. */
const MAX_DEPTH = 200

/** A folder that vanishes was moved or deleted. Deleting takes a moment, so a later search usually succeeds. */
const ATTEMPTS = 3

/**
 * Counts the files whose content or attributes have changed since a time. No program can set the time of that change (`ctime`).
 * Names are bytes, because file names need not be valid text.
 */
export async function writtenFiles(search: Search): Promise<Written> {
  for (let attempt = 1; ; attempt++) {
    const counter = new Counter(search)
    for (const root of search.folders) await counter.countRoot(root)
    const { written } = counter
    if (!written.onlyVanished || attempt === ATTEMPTS) return written
  }
}

const isAbsent = (error: unknown): boolean => errnoOf(error) === 'ENOENT'

class Counter {
  #bytes = 0
  #files = 0
  #isUnread = false
  #hasVanished = false
  readonly #search: Search
  /** Files with several names, by inode. */
  readonly #linked = new Set<number>()

  constructor(search: Search) {
    this.#search = search
  }

  get written(): Written {
    const amount = { bytes: this.#bytes, files: this.#files }
    const isUnread = this.#isUnread || this.#search.signal.aborted
    if (isOver(amount, this.#search.limits) || !(isUnread || this.#hasVanished))
      return { ...amount, isComplete: true }
    return { ...amount, isComplete: false, onlyVanished: !isUnread }
  }

  get #isDone(): boolean {
    return (
      this.#search.signal.aborted || isOver({ bytes: this.#bytes, files: this.#files }, this.#search.limits)
    )
  }

  async countRoot(path: string): Promise<void> {
    const root = await open(path, FOLDER).catch((error) => this.#note(error, false))
    if (root) await this.#countEntries(root, 0)
  }

  /**
   * Counts the entries of an open folder, and closes it. Each folder in it is opened as soon as it is listed and stays open, so
   * the search follows a folder that a command renames.
   */
  async #countEntries(folder: FileHandle, depth: number): Promise<void> {
    const opened = Buffer.from(`/proc/self/fd/${folder.fd}/`)
    try {
      // The type of the options lacks `buffer`, which Node supports.
      const entries = await opendir(opened, { encoding: 'buffer' as BufferEncoding })
      for await (const entry of entries) {
        if (this.#isDone) return
        const path = Buffer.concat([opened, entry.name as unknown as Buffer])
        await this.#count(path, { mayBeFolder: !entry.isFile(), depth })
      }
    } catch (error) {
      // The folder is open, so its absence means that it was deleted.
      this.#note(error, false)
    } finally {
      await folder.close()
    }
  }

  async #count(path: Buffer, { mayBeFolder, depth }: Entry): Promise<void> {
    const found = await lstat(path).catch((error) => this.#note(error, mayBeFolder))
    if (found?.dev !== this.#search.device) return
    if (found.ctimeMs >= this.#search.since && !this.#linked.has(found.ino)) this.#add(found)
    if (!found.isDirectory()) return
    if (depth === MAX_DEPTH) this.#isUnread = true
    else await this.#enter(path, { ino: found.ino, depth: depth + 1 })
  }

  async #enter(
    path: Buffer,
    { ino, depth }: { readonly ino: number; readonly depth: number },
  ): Promise<void> {
    const folder = await open(path, FOLDER).catch((error) => this.#note(error, true))
    if (!folder) return
    const opened = await folder.stat().catch(() => undefined)
    if (opened?.ino === ino) return this.#countEntries(folder, depth)
    // Another folder has the name now.
    this.#hasVanished = true
    await folder.close()
  }

  /** A deleted file needs no space. A folder that is absent may have been moved, with everything in it. */
  #note(error: unknown, mayBeFolder: boolean): undefined {
    if (!isAbsent(error)) this.#isUnread = true
    else if (mayBeFolder) this.#hasVanished = true
  }

  #add(found: Stats): void {
    if (found.nlink > 1 && !found.isDirectory()) this.#linked.add(found.ino)
    this.#files += 1
    this.#bytes += found.blocks * BLOCK_BYTES
  }
}

interface Entry {
  readonly mayBeFolder: boolean
  readonly depth: number
}
