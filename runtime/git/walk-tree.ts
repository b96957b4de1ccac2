import { type BigIntStats, closeSync, constants, lstatSync, openSync, readdirSync } from 'node:fs'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { errnoOf } from '../kit/errors.ts'
import { atFolder, type ByteName, shownPath } from '../workspace/git/folder-names.ts'
import { isGitOrHeldName } from '../workspace/git/git-names.ts'
import { handlePath } from '../workspace/handles.ts'

/** Something in a folder, by its path below the root. */
export interface TreeEntry {
  readonly path: ByteName
  readonly stats: BigIntStats
  /** Names it in the folder that is held open; valid until the visit ends. */
  readonly at: Buffer
}

export interface TreeVisitor {
  /** Whether to go into a folder. */
  readonly onFolder: (entry: TreeEntry) => boolean | Promise<boolean>
  /** Files, links and everything else. */
  readonly onEntry: (entry: TreeEntry) => void | Promise<void>
  /** Told of what cannot be opened. */
  readonly onClosed: (path: ByteName) => void
  readonly signal?: AbortSignal | undefined
}

const FOLDER = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW
/** Every level holds a descriptor. */
const MAX_DEPTH = 256
/** How long one part of a walk may keep other work waiting. */
const PART_MS = 5

/**
 * Visits what lies below a folder, by name, without git's own files. Each folder is opened in the one above it and no
 * link is followed, so that nothing outside is ever read, whoever changes the tree meanwhile.
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

/** What vanished, became a link or is closed to this user. */
export const isGoneOrClosed = (error: unknown): boolean =>
  ['ENOENT', 'ENOTDIR', 'ELOOP', 'EACCES', 'EPERM', 'ENXIO', 'ENAMETOOLONG'].includes(errnoOf(error) ?? '')
