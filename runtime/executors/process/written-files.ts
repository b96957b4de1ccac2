import type { Stats } from 'node:fs'
import { lstat, opendir } from 'node:fs/promises'
import { join } from 'node:path'
import { type Amount, isOver } from './disk.ts'

export interface Search {
  readonly folders: readonly string[]
  /** Only files of this file system. */
  readonly device: number
  /** Milliseconds since 1970. */
  readonly since: number
  /** The search ends when they are reached. */
  readonly limits: Amount
  readonly signal: AbortSignal
}

export interface Written extends Amount {
  /** Whether every folder could be read. */
  readonly isComplete: boolean
}

const BLOCK_BYTES = 512

/** Counts the files whose content or attributes have changed since a time. No program can set the time of that change. */
export async function writtenFiles(search: Search): Promise<Written> {
  const counter = new Counter(search)
  const left = [...search.folders]
  for (let folder = left.pop(); folder !== undefined && !counter.isDone; folder = left.pop())
    left.push(...(await counter.take(folder)))
  return counter.written
}

class Counter {
  readonly written = { bytes: 0, files: 0, isComplete: true }
  readonly #search: Search
  /** Files with several names, by inode. */
  readonly #linked = new Set<number>()

  constructor(search: Search) {
    this.#search = search
  }

  get isDone(): boolean {
    return this.#search.signal.aborted || isOver(this.written, this.#search.limits)
  }

  /** Counts the entries of a folder, and returns the folders in it. */
  async take(folder: string): Promise<string[]> {
    const inner: string[] = []
    try {
      for await (const { name } of await opendir(folder)) {
        if (this.isDone) break
        const path = join(folder, name)
        if (this.#look(await lstat(path))) inner.push(path)
      }
    } catch (error) {
      // What was deleted in the meantime needs no space.
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') this.written.isComplete = false
    }
    return inner
  }

  /** Returns whether it is a folder to look into. */
  #look(found: Stats): boolean {
    if (found.dev !== this.#search.device) return false
    if (this.#isNew(found)) this.#add(found)
    return found.isDirectory()
  }

  #isNew({ ctimeMs, ino }: Stats): boolean {
    return ctimeMs >= this.#search.since && !this.#linked.has(ino)
  }

  #add(found: Stats): void {
    if (found.nlink > 1 && !found.isDirectory()) this.#linked.add(found.ino)
    this.written.files += 1
    this.written.bytes += found.blocks * BLOCK_BYTES
  }
}
