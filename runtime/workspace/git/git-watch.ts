import { closeSync, lstatSync, renameSync } from 'node:fs'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { HeldEntries } from '../../../contracts/events.ts'
import type { GitEntry } from '../../../contracts/workspace-layout.ts'
import { errnoOf } from '../../kit/errors.ts'
import { atFolder, type ByteName, entriesBelow, openFolderBelow, shownPath } from './folder-names.ts'
import { HELD_SUFFIX, isGitDirectory, isGitName } from './git-names.ts'

export interface WatchOptions {
  /** Git directories that existed before the run. @default none */
  readonly base?: readonly GitEntry[]
  /** Maximum number of folders per search. @default 5,000,000 */
  readonly maxFolders?: number
  /** Maximum number of cached folders; others are listed again in each search. @default 300,000 */
  readonly maxRemembered?: number
}

/** A command needs minutes to create this many folders. */
const MAX_FOLDERS = 5_000_000
/** About 100 MB of memory. */
const MAX_REMEMBERED = 300_000
const MAX_NAMES = 16
/** A running command may create new git directories as fast as they are renamed. */
const MAX_ROUNDS = 16
/** Maximum number of renamed entries with the same name. */
const MAX_SAME = 100
/** Longest time that a search blocks the event loop. */
const PART_MS = 5
/**
 * Kernels before 6.13 timestamp changes with their last tick. A folder that was listed within this time after
 * its last change may have changed again with the same timestamp.
 */
const TICK_NS = 50_000_000n

interface Folder {
  readonly identity: string
  readonly changedNs: bigint
  readonly listedNs: bigint
  readonly folders: readonly ByteName[]
  readonly found: readonly GitEntry[]
}

/**
 * Finds git directories in a folder and renames those that did not exist before the run. A folder is listed
 * again only if its ctime changed, which its owner cannot forge, so a search costs one `lstat` per folder.
 */
export class GitWatch {
  readonly #root: number
  readonly #maxFolders: number
  readonly #maxRemembered: number
  readonly #base = new Map<string, string>()
  #folders = new Map<ByteName, Folder>()
  #isComplete = true
  #folderCount = 0
  #searching: Promise<unknown> = Promise.resolve()
  /** The queued search that has not started. */
  #next: Promise<HeldEntries> | undefined

  /** `root` is an open directory handle, which must stay open. */
  constructor(root: number, options: WatchOptions = {}) {
    const { base = [], maxFolders = MAX_FOLDERS, maxRemembered = MAX_REMEMBERED } = options
    this.#root = root
    this.#maxFolders = maxFolders
    this.#maxRemembered = maxRemembered
    for (const entry of base) this.#base.set(pathOf(entry), entry.identity)
  }

  /** Number of folders in the last search. */
  get folderCount(): number {
    return this.#folderCount
  }

  /** Finds all git directories. */
  find(): Promise<{ readonly found: readonly GitEntry[]; readonly isComplete: boolean }> {
    return this.#oneByOne(async () => ({ found: await this.#search(), isComplete: this.#isComplete }))
  }

  /**
   * Renames new git directories. A running search may already have passed a folder, so callers wait for the
   * next search, which all callers share until it starts.
   */
  hold(): Promise<HeldEntries> {
    this.#next ??= this.#oneByOne(async () => {
      this.#next = undefined
      const held: ByteName[] = []
      // A renamed folder may still be a git directory or contain others, so the search repeats until nothing
      // new is found.
      for (let round = 0; round < MAX_ROUNDS; round++) {
        const found = await this.#search()
        const fresh = found.filter((entry) => this.#base.get(pathOf(entry)) !== entry.identity)
        if (fresh.length === 0) return heldEntries(held, this.#isComplete)
        held.push(...fresh.filter((entry) => rename(this.#root, entry)).map(pathOf))
      }
      return heldEntries(held, false)
    })
    return this.#next
  }

  #oneByOne<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#searching.then(work)
    this.#searching = result.catch(() => undefined)
    return result
  }

  async #search(): Promise<GitEntry[]> {
    const known = this.#folders
    const found: GitEntry[] = []
    this.#folders = new Map()
    this.#isComplete = true
    let count = 0
    let partEnds = performance.now() + PART_MS
    const waiting: ByteName[] = ['']
    for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
      if (count >= this.#maxFolders) {
        this.#isComplete = false
        break
      }
      const folder = this.#look(path, known.get(path))
      if (!folder) continue
      count += 1
      this.#remember(path, folder)
      found.push(...folder.found)
      for (const name of folder.folders) waiting.push(join(path, name))
      if (performance.now() < partEnds) continue
      await nextTurn()
      partEnds = performance.now() + PART_MS
    }
    this.#folderCount = count
    return found
  }

  #remember(path: ByteName, folder: Folder): void {
    if (this.#folders.size < this.#maxRemembered) this.#folders.set(path, folder)
  }

  #look(path: ByteName, known: Folder | undefined): Folder | undefined {
    try {
      const listedNs = BigInt(Date.now()) * 1_000_000n
      const stats = lstatSync(atFolder(this.#root, path), { bigint: true })
      // `/proc/self/fd/N` of the root is itself a link.
      if (path !== '' && !stats.isDirectory()) return undefined
      const { identity, changedNs } = path === '' ? rootFacts(this.#root) : factsOf(stats)
      const isSame = known?.identity === identity && known.changedNs === changedNs
      if (known && isSame && known.listedNs - known.changedNs > TICK_NS) return known
      return { identity, changedNs, listedNs, ...this.#list(path) }
    } catch (error) {
      this.#isComplete &&= errnoOf(error) === 'ENOENT' || errnoOf(error) === 'ENOTDIR'
      return undefined
    }
  }

  #list(path: ByteName): Pick<Folder, 'folders' | 'found'> {
    const entries = entriesBelow(this.#root, path)
    const isGit = ({ name }: { name: ByteName }) => isGitName(shownPath(name))
    // The private git directory is mounted over `.git` in the root.
    const git = entries.filter((entry) => isGit(entry) && !(path === '' && entry.name === '.git'))
    const isBare = isGitDirectory(entries.map(({ name }) => name))
    const heads = isBare ? entries.filter(({ name }) => name.toLowerCase() === 'head') : []
    const found = [...git, ...heads].flatMap(({ name }) => entryAt(this.#root, path, name) ?? [])
    const folders = isBare && heads.every(({ name }) => this.#isOfBase(path, name, found)) ? [] : entries
    return { found, folders: folders.filter((one) => one.isFolder && !isGit(one)).map(({ name }) => name) }
  }

  /** The user's own bare repositories are read-only during the run, so nothing new can appear inside them. */
  #isOfBase(folder: ByteName, name: ByteName, found: readonly GitEntry[]): boolean {
    const entry = found.find((one) => one.name === name)
    return entry !== undefined && this.#base.get(join(folder, name)) === entry.identity
  }
}

/** The renamed entries, without those inside another renamed entry. */
function heldEntries(held: readonly ByteName[], isComplete: boolean): HeldEntries {
  const outer = held.filter((path) => !path.includes(`${HELD_SUFFIX}/`) && !path.includes(`${HELD_SUFFIX}-`))
  return { count: outer.length, names: outer.slice(0, MAX_NAMES).map(shownPath), isComplete }
}

const join = (folder: ByteName, name: ByteName): ByteName => (folder === '' ? name : `${folder}/${name}`)
const pathOf = ({ folder, name }: GitEntry): ByteName => join(folder, name)

const factsOf = ({ dev, ino, ctimeNs }: { dev: bigint; ino: bigint; ctimeNs: bigint }) => ({
  identity: `${dev}:${ino}`,
  changedNs: ctimeNs,
})

const rootFacts = (root: number) => factsOf(lstatSync(atFolder(root, '.'), { bigint: true }))

function entryAt(root: number, folder: ByteName, name: ByteName): GitEntry | undefined {
  const stats = lstatSync(atFolder(root, join(folder, name)), { bigint: true, throwIfNoEntry: false })
  return stats && { folder, name, identity: factsOf(stats).identity }
}

/** Renames an entry. Returns false if it no longer exists. No link is followed. */
function rename(root: number, { folder, name }: GitEntry): boolean {
  let handle: number | undefined
  try {
    handle = openFolderBelow(root, folder)
    renameSync(atFolder(handle, name), atFolder(handle, freeName(handle, name)))
    return true
  } catch (error) {
    if (['ENOENT', 'ENOTDIR', 'ELOOP'].includes(errnoOf(error) ?? '')) return false
    throw error
  } finally {
    if (handle !== undefined) closeSync(handle)
  }
}

function freeName(folder: number, name: ByteName): ByteName {
  for (let number = 1; number <= MAX_SAME; number++) {
    const wanted = `${name}${HELD_SUFFIX}${number === 1 ? '' : `-${number}`}`
    if (!lstatSync(atFolder(folder, wanted), { throwIfNoEntry: false })) return wanted
  }
  return `${name}${HELD_SUFFIX}-${process.hrtime.bigint()}`
}
