import { type BigIntStats, closeSync, constants, lstatSync, openSync, readdirSync } from 'node:fs'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { errnoOf } from '../kit/errors.ts'
import { atFolder, type ByteName, shownPath } from '../workspace/git/folder-names.ts'
import { isGitOrHeldName } from '../workspace/git/git-names.ts'
import { handlePath } from '../workspace/handles.ts'

/** An entry of a folder tree. `path` is relative to the root. */
export interface TreeEntry {
  readonly path: ByteName
  readonly stats: BigIntStats
  /** The entry's path through the open handle of its folder. Valid until the visit ends. */
  readonly at: Buffer
}

export interface TreeVisitor {
  /** Returns whether to enter a folder. */
  readonly onFolder: (entry: TreeEntry) => boolean | Promise<boolean>
  /** Called for files, links and everything else that is not a folder. */
  readonly onEntry: (entry: TreeEntry) => void | Promise<void>
  /** Called for folders that cannot be opened. */
  readonly onClosed: (path: ByteName) => void
  readonly signal?: AbortSignal | undefined
}

const FOLDER = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW
/** Every level holds one file descriptor. */
const MAX_DEPTH = 256
/** Longest time that a walk blocks the event loop. */
const PART_MS = 5

/**
 * Visits everything below a folder in the order of names, except git's own files. Each folder is opened
 * relative to its parent's handle and no link is followed, so nothing outside the root is read even if the tree
 * changes during the walk.
 */
export async function walkTree(root: number, visitor: TreeVisitor): Promise<void> {
  await new Walk(visitor).visit(root, '', 0)
}

class Walk {
  readonly #visitor: TreeVisitor
  #partEnds = performance.now() + PART_MS

  constructor(visitor: TreeVisitor) {
    this.#visitor = visitor
  }

  async visit(folder: number, path: ByteName, depth: number): Promise<void> {
    for (const name of namesIn(folder)) {
      this.#visitor.signal?.throwIfAborted()
      const at = atFolder(folder, name)
      const stats = lstatSync(at, { bigint: true, throwIfNoEntry: false })
      if (!stats) continue
      const entry = { path: path === '' ? name : `${path}/${name}`, stats, at }
      if (stats.isDirectory()) await this.#enter(entry, depth)
      else await this.#visitor.onEntry(entry)
      await this.#pause()
    }
  }

  async #enter(entry: TreeEntry, depth: number): Promise<void> {
    if (!(await this.#visitor.onFolder(entry))) return
    const folder = depth < MAX_DEPTH ? openFolder(entry) : undefined
    if (folder === undefined) return this.#visitor.onClosed(entry.path)
    try {
      await this.visit(folder, entry.path, depth + 1)
    } finally {
      closeSync(folder)
    }
  }

  async #pause(): Promise<void> {
    if (performance.now() < this.#partEnds) return
    await nextTurn()
    this.#partEnds = performance.now() + PART_MS
  }
}

function openFolder({ at }: TreeEntry): number | undefined {
  try {
    return openSync(at, FOLDER)
  } catch (error) {
    if (isGoneOrClosed(error)) return undefined
    throw error
  }
}

const namesIn = (folder: number): ByteName[] =>
  readdirSync(handlePath(folder), { encoding: 'buffer' })
    .map((name) => name.toString('latin1'))
    .filter((name) => !isGitOrHeldName(shownPath(name)))
    .sort()

/** The entry vanished, became a link, or this user cannot access it. */
export const isGoneOrClosed = (error: unknown): boolean =>
  ['ENOENT', 'ENOTDIR', 'ELOOP', 'EACCES', 'EPERM', 'ENXIO', 'ENAMETOOLONG'].includes(errnoOf(error) ?? '')
