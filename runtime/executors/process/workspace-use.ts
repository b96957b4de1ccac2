import type { WorkspaceUsage } from '../../../contracts/exec.ts'
import { deadline, delay, withTimeout } from '../../kit/deadline.ts'
import { type Amount, type Disk, disksOf, growthOf, isAlmostFull, isOver, leastOf } from './disk.ts'
import { UsageLevels } from './usage-levels.ts'
import { type Written, writtenFiles } from './written-files.ts'

/** The abort reason of a command that is stopped because the workspace is full. The message says why. */
export class WorkspaceFull extends Error {}

/** How much the commands of a sandbox may write. */
export interface WorkspaceLimits extends Amount {
  /** Whether `bytes` comes from the size of the volume, which allows less than the settings. */
  readonly isOfVolume: boolean
}

/** Why a workspace is full, before a command starts. */
export interface FullWorkspace {
  readonly why: string
  /** False if earlier commands let the full workspace grow. Otherwise a command may run to delete files. */
  readonly mayRun: boolean
}

/** How often the free space of the file systems is read while a command runs. */
const EVERY_MS = 500
/**
 * File times lag behind the clock by a few milliseconds. Added only at the start of the sandbox: between two commands, it would
 * attribute the files of the first to the second.
 */
const CLOCK_MS = 1_000
/** Fraction of the time that searches may take. */
const SEARCH_SHARE = 0.1
/** Time limit of a search, enough for about 500,000 files. Beyond it, the growth of the file system counts. */
const SEARCH_MS = 30_000
/** Time limit of the search that decides whether a command is stopped, because the command keeps writing until then. */
const CONFIRM_MS = 5_000
/** How long a command waits before its start for the search that began when the previous command ended. */
const SETTLE_MS = 2_000
/** Fraction of a limit that commands may add to a full workspace: empty files, folders and links. */
const SHARE_WHILE_FULL = 0.1
const RUNNING = Number.POSITIVE_INFINITY
/** Commands that only delete files change less than this. Other programs often write this much. */
const NOISE: Amount = { bytes: 1_048_576, files: 64 }
/** If a file system has grown by less than this during a command, the command is not the reason that its space ends. */
const SUSPICIOUS: Amount = { bytes: 67_108_864, files: 4_096 }

/**
 * Measures how much the commands of one sandbox write to folders of the host. Reading the free space of a file system is cheap,
 * so the class reads it often. It searches the folders only when a file system has grown enough to reach a limit or another
 * level, and counts the files that changed since the sandbox began. If it cannot count all files, the growth of the file system
 * counts. Deleted files that are still open are in no folder. Only the reserve of the file system limits their size.
 */
export class WorkspaceUse {
  readonly #folders: readonly string[]
  readonly #readDisks: typeof disksOf
  readonly #began: Moment
  /** The lowest use of each file system so far. Growth starts there, because other programs may delete files. */
  readonly #least = new Map<number, Disk>()
  /** File systems on which the last search found that a limit is reached. */
  readonly #full = new Map<number, Full>()
  readonly #closing = new AbortController()
  readonly #searches = new Map<number, RunningSearch>()
  readonly #levels: UsageLevels
  #lastLook: Promise<unknown> = Promise.resolve()
  #later: NodeJS.Timeout | undefined

  /**
   * @param folders the workspace, and other folders of the host that commands can write
   * @param onUsage is called when the use of the workspace reaches another level
   * @param readDisks measures the file systems of the folders
   */
  constructor(
    folders: readonly string[],
    onUsage: (usage: WorkspaceUsage) => void = () => undefined,
    readDisks = disksOf,
  ) {
    this.#folders = folders
    this.#readDisks = readDisks
    const { at, tick } = now()
    this.#began = { at: at - CLOCK_MS, tick }
    this.#levels = new UsageLevels(onUsage)
  }

  /**
   * Call before a command starts. Returns why the workspace is full, or undefined. Waits up to `SETTLE_MS` for the search that
   * began when the previous command ended.
   */
  async begin(limits: WorkspaceLimits): Promise<FullWorkspace | undefined> {
    const disks = await this.#look(limits)
    const searches = Promise.all([...this.#searches.values()].map(({ ended }) => ended))
    await deadline('the search', SETTLE_MS, searches).catch(() => undefined)
    for (const [device, { why }] of this.#full)
      if (await this.#hasGrownWhileFull(device, disks, limits)) return { why, mayRun: false }
    const [first] = this.#full.values()
    return first && { why: first.why, mayRun: true }
  }

  /**
   * Whether the workspace has grown too much since the first command that started while it was full. A short command ends
   * before the watch can stop it, so only the sum of many commands shows the growth.
   */
  async #hasGrownWhileFull(device: number, disks: Disks, limits: WorkspaceLimits): Promise<boolean> {
    const [full, disk] = [this.#full.get(device), disks.get(device)]
    if (!full || !disk) return false
    full.since ??= { moment: now(), least: disk }
    const { moment: began, least } = full.since
    const growth = growthOf(least, disk)
    const allowed = { bytes: limits.bytes * SHARE_WHILE_FULL, files: limits.files * SHARE_WHILE_FULL }
    if (!isOver(growth, allowed)) return false
    // Other programs may have caused the growth.
    const signal = withTimeout(SEARCH_MS, this.#closing.signal)
    const written = await this.#count(device, allowed, { began, signal })
    // A file counts as a whole if it was only renamed.
    return isOver(written.isComplete ? leastAmount(written, growth) : counted(growth), allowed)
  }

  /**
   * Watches the file systems while one command runs. Calls `onFull` at most once, with the reason as a sentence. Returns a
   * function that ends the watch after a last measurement. A file system that cannot be read is read again at the next interval.
   */
  watch(limits: WorkspaceLimits, onFull: (why: string) => void): () => void {
    const ended = new AbortController()
    const { signal } = ended
    const began = now()
    let isStopped = false
    const watch = async () => {
      let least = await this.#look(limits)
      while (true) {
        await delay(EVERY_MS, signal)
        const disks = await this.#look(limits)
        // Files that are deleted at the same time must not hide what the command writes.
        least = leastOfEach(least, disks)
        const why = await this.#reasonToStop(began, least, disks)
        if (why === undefined || signal.aborted) continue
        isStopped = true
        return onFull(why)
      }
    }
    // The abort at the end of the command rejects it.
    watch().catch(() => undefined)
    return () => {
      ended.abort()
      // A stopped command may write until it ends. This growth is ignored for the first stopped commands.
      if (isStopped) for (const full of this.#full.values()) forgetGrowth(full)
      this.#lastLook = this.#look(limits)
    }
  }

  async #reasonToStop(began: Moment, least: Disks, disks: Disks): Promise<string | undefined> {
    for (const [device, disk] of disks) {
      const ofCommand = growthOf(least.get(device) ?? disk, disk)
      if (isAlmostFull(disk) && ofCommand.bytes > SUSPICIOUS.bytes)
        return `the file system of the workspace has only ${sizeOf(disk.freeBytes)} left.`
      const why = this.#full.get(device)?.why
      // Other programs may have caused the growth.
      if (why !== undefined && isOver(ofCommand, NOISE) && (await this.#hasWritten(device, began, ofCommand)))
        return why
    }
    return undefined
  }

  /** Whether a command has written more than a command that only deletes files. True if that cannot be counted. */
  async #hasWritten(device: number, began: Moment, growth: Amount): Promise<boolean> {
    const written = await this.#count(device, NOISE, {
      began,
      signal: withTimeout(CONFIRM_MS, this.#closing.signal),
    })
    // Folders vanish if the command deletes them, or moves them to hide its files.
    if (written.onlyVanished) return isOver(counted(growth), SUSPICIOUS)
    return !written.isComplete || isOver(written, NOISE)
  }

  /** Reads the use of the file systems. Starts a search of those that have grown too much. */
  async #look(limits: WorkspaceLimits): Promise<Disks> {
    const disks = await this.#readDisks(this.#folders).catch(() => new Map<number, Disk>())
    if (this.#closing.signal.aborted) return disks
    for (const [device, disk] of disks) {
      const least = leastOf(this.#least.get(device) ?? disk, disk)
      this.#least.set(device, least)
      const growth = growthOf(least, disk)
      const full = this.#full.get(device)
      if (full?.since) full.since.least = leastOf(full.since.least, disk)
      // If another program deletes files, the growth falls below the limit although the workspace is still full.
      const isForLimit = isOver(growth, limits) || full !== undefined
      if (isForLimit || this.#levels.canHaveChanged(device, growth, limits))
        this.#search(device, { growth, limits, isForLimit })
    }
    return disks
  }

  /**
   * Runs one search per file system at a time, with pauses, because another program may be filling the disk. A search that
   * decides about a limit replaces a running search that only decides about a level.
   */
  #search(device: number, found: Growth): void {
    const before = this.#searches.get(device)
    const isUrgent = found.isForLimit && before?.isForLimit === false
    if (before?.next === RUNNING && !isUrgent) return
    before?.stop.abort()
    // A full workspace is searched again at once, because the command may have deleted files.
    const pauseMs = before === undefined || isUrgent ? 0 : before.next - performance.now()
    if (pauseMs > 0 && !this.#full.has(device)) {
      this.#lookLater(pauseMs, found.limits)
      return
    }
    const startedAt = performance.now()
    const { isForLimit } = found
    const search: RunningSearch = {
      ...{ next: RUNNING, isForLimit, ended: Promise.resolve(), stop: new AbortController() },
    }
    const signal = AbortSignal.any([search.stop.signal, this.#closing.signal])
    const counted = this.#count(device, found.limits, {
      began: this.#began,
      signal: withTimeout(SEARCH_MS, signal),
    })
    const counting = counted.then((written) => {
      search.next = performance.now() + (performance.now() - startedAt) / SEARCH_SHARE
      if (!signal.aborted) this.#found(device, written, found)
    })
    search.ended = Promise.all([counting, before?.ended]).then(() => undefined)
    this.#searches.set(device, search)
  }

  /** Looks again after the pause, also if no command runs by then. */
  #lookLater(pauseMs: number, limits: WorkspaceLimits): void {
    this.#later ??= setTimeout(() => {
      this.#later = undefined
      this.#lastLook = this.#look(limits)
    }, pauseMs).unref()
  }

  #found(device: number, written: Written, found: Growth): void {
    const why = overLimit(written, found)
    if (why === undefined) this.#full.delete(device)
    else this.#full.set(device, { since: undefined, stops: 0, ...this.#full.get(device), why })
    const { growth, limits } = found
    const { isComplete } = written
    const { bytes, files } = isComplete ? written : atLeast(written, growth)
    this.#levels.counted(device, { usage: { bytes, files }, growth, limits, isComplete })
  }

  /** Counts the files that have changed since `began`. */
  #count(
    device: number,
    limits: Amount,
    { began, signal }: { readonly began: Moment; readonly signal: AbortSignal },
  ): Promise<Written> {
    const { at, tick } = now()
    // If the clock was set back, files written since then have earlier times.
    const setBack = Math.min(0, at - began.at - (tick - began.tick))
    const since = began.at + setBack
    return writtenFiles({ folders: this.#folders, device, since, limits, signal }).catch(() => UNKNOWN)
  }

  /** Ends the searches. */
  async close(): Promise<void> {
    this.#closing.abort()
    clearTimeout(this.#later)
    await this.#lastLook
    await Promise.all([...this.#searches.values()].map(({ ended }) => ended))
  }
}

/** A time of the wall clock and of the monotonic clock, in milliseconds. Only the wall clock can be set. */
interface Moment {
  readonly at: number
  readonly tick: number
}

const now = (): Moment => ({ at: Date.now(), tick: performance.now() })

interface Full {
  readonly why: string
  /** Start of the first command on the full workspace, and the lowest use of the file system since then. */
  since: { readonly moment: Moment; least: Disk } | undefined
  /** Commands that were stopped while it was full. */
  stops: number
}

/** Number of stopped commands whose growth is ignored. Without it, a loop of stopped commands could fill the disk. */
const FORGIVEN_STOPS = 2

function forgetGrowth(full: Full): void {
  full.stops += 1
  if (full.stops <= FORGIVEN_STOPS) full.since = undefined
}

type Disks = ReadonlyMap<number, Disk>

/** A file system that could not be read before is compared with its first measurement. */
const leastOfEach = (before: Disks, after: Disks): Disks =>
  new Map([
    ...before,
    ...[...after].map(([device, disk]) => [device, leastOf(before.get(device) ?? disk, disk)] as const),
  ])

const UNKNOWN: Written = { bytes: 0, files: 0, isComplete: false }

interface Growth {
  /** Growth of the file system. */
  readonly growth: Amount
  readonly limits: WorkspaceLimits
  /** The file system has grown by as much as a limit. */
  readonly isForLimit: boolean
}

interface RunningSearch {
  /** When the next search may begin, or `RUNNING`. */
  next: number
  ended: Promise<void>
  readonly isForLimit: boolean
  readonly stop: AbortController
}

const FROM_SETTINGS =
  'Delete what is not needed. The limit comes from the settings of the run and the ceiling of the operator.'
const FROM_VOLUME = 'Delete what is not needed. The limit comes from the size of the volume.'

function overLimit(written: Written, { growth, limits }: Growth): string | undefined {
  const { bytes, files } = written.isComplete ? written : atLeast(written, growth)
  const who = written.isComplete
    ? 'the commands of this sandbox have written'
    : 'not all files of the workspace can be counted, and its file system has grown by'
  if (bytes >= limits.bytes) {
    const allows = limits.isOfVolume ? 'its volume has room for' : 'max_workspace_bytes allows'
    return `${who} ${sizeOf(bytes)}, and ${allows} ${sizeOf(limits.bytes)}. ${limits.isOfVolume ? FROM_VOLUME : FROM_SETTINGS}`
  }
  if (files >= limits.files)
    return `${who} ${files} files, and max_workspace_files allows ${limits.files}. ${FROM_SETTINGS}`
  return undefined
}

/** A file system that does not count files is judged by its bytes alone. */
const counted = ({ bytes, files }: Amount): Amount => ({ bytes, files: Number.isFinite(files) ? files : 0 })

const leastAmount = (a: Amount, b: Amount): Amount => ({
  bytes: Math.min(a.bytes, b.bytes),
  files: Math.min(a.files, b.files),
})

const atLeast = (written: Amount, growth: Amount): Amount => ({
  bytes: Math.max(written.bytes, growth.bytes),
  files: Math.max(written.files, counted(growth).files),
})

const sizeOf = (bytes: number): string =>
  bytes >= 2 ** 30 ? `${(bytes / 2 ** 30).toFixed(1)} GiB` : `${Math.round(bytes / 2 ** 20)} MiB`
