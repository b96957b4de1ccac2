import { closeSync, lstatSync, renameSync } from 'node:fs'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { HeldEntries } from '../../../contracts/events.ts'
import type { GitEntry } from '../../../contracts/workspace-layout.ts'
import { errnoOf } from '../../kit/errors.ts'
import { atFolder, type ByteName, entriesBelow, openFolderBelow, shownPath } from './folder-names.ts'
import { HELD_SUFFIX, isGitDirectory, isGitName } from './git-names.ts'

export interface WatchOptions {
  /** Entries that were there before the run. @default none */
  readonly base?: readonly GitEntry[]
  /** Folders that a search looks at. @default 5,000,000 */
  readonly maxFolders?: number
  /** Folders that are remembered; others are listed in each search. @default 300,000 */
  readonly maxRemembered?: number
}

/** A command that makes this many folders to hide a git directory behind them takes minutes. */
const MAX_FOLDERS = 5_000_000
/** Some 100 MB of memory. */
const MAX_REMEMBERED = 300_000
const MAX_NAMES = 16
/** A command that still runs may plant new ones as fast as they are renamed. */
const MAX_ROUNDS = 16
/** Names that were held before and are there still. */
const MAX_SAME = 100
/** How long one part of a search may keep other work waiting. */
const PART_MS = 5
/**
 * Kernels before 6.13 stamp changes with the time of their last tick: a folder that was listed this shortly after its
 * last change may have changed again since, under the same time.
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
 * Finds the git directories of a folder, and renames those that its base does not have. A folder is listed again only if
 * the time of its last change, which its owner cannot set, is another: a search costs one `lstat` for each folder.
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
  /** The search that has not begun. */
  #next: Promise<HeldEntries> | undefined

  /** `root` is a handle on the folder, which outlives this. */
  constructor(root: number, options: WatchOptions = {}) {
    const { base = [], maxFolders = MAX_FOLDERS, maxRemembered = MAX_REMEMBERED } = options
    this.#root = root
    this.#maxFolders = maxFolders
    this.#maxRemembered = maxRemembered
    for (const entry of base) this.#base.set(pathOf(entry), entry.identity)
  }

  /** How many folders the last search saw. */
  get folderCount(): number {
    return this.#folderCount
  }

  /** What there is now. */
  find(): Promise<{ readonly found: readonly GitEntry[]; readonly isComplete: boolean }> {
    return this.#oneByOne(async () => ({ found: await this.#search(), isComplete: this.#isComplete }))
  }

  /**
   * Renames what is not of the base. A search that is under way may have passed a folder already, so a caller waits for
   * the one after it, which all callers until then share.
   */
  hold(): Promise<HeldEntries> {
    this.#next ??= this.#oneByOne(async () => {
      this.#next = undefined
      const held: ByteName[] = []
      // What was renamed may be a git directory still, with others in it: it is looked into until nothing is left.
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
      // The root's own handle is a link.
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
    // The root's own is what the private git directory stands over.
    const git = entries.filter((entry) => isGit(entry) && !(path === '' && entry.name === '.git'))
    const isBare = isGitDirectory(entries.map(({ name }) => name))
    const heads = isBare ? entries.filter(({ name }) => name.toLowerCase() === 'head') : []
    const found = [...git, ...heads].flatMap(({ name }) => entryAt(this.#root, path, name) ?? [])
    const folders = isBare && heads.every(({ name }) => this.#isOfBase(path, name, found)) ? [] : entries
    return { found, folders: folders.filter((one) => one.isFolder && !isGit(one)).map(({ name }) => name) }
  }

  /** The user's own bare repositories are read-only for the run: nothing comes into them. */
  #isOfBase(folder: ByteName, name: ByteName, found: readonly GitEntry[]): boolean {
    const entry = found.find((one) => one.name === name)
    return entry !== undefined && this.#base.get(join(folder, name)) === entry.identity
  }
}

/** What was renamed, without what lies in something that was. */
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

/** False where it has gone meanwhile. The folder is walked without following a link. */
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
