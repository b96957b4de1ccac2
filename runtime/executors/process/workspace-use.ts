import type { WorkspaceUsage } from '../../../contracts/exec.ts'
import { deadline, delay, withTimeout } from '../../kit/deadline.ts'
import { type Amount, type Disk, disksOf, growthOf, isAlmostFull, isOver, leastOf } from './disk.ts'
import { UsageLevels } from './usage-levels.ts'
import { type Written, writtenFiles } from './written-files.ts'

/** Why a command was stopped. The reason of its signal. */
export class WorkspaceFull extends Error {}

/** How much the commands of a sandbox may write. */
export interface WorkspaceLimits extends Amount {
  /** The size of the volume allows fewer bytes than the settings. */
  readonly isOfVolume: boolean
}

/** Why a workspace is full, before a command starts. */
export interface FullWorkspace {
  readonly why: string
  /** False if earlier commands let the full workspace grow. Otherwise a command may run to delete files. */
  readonly mayRun: boolean
}

/** How often the file systems are asked while a command runs. */
const EVERY_MS = 500
/** Clocks of files lag behind by a few milliseconds. For the start of the sandbox only: commands follow each other at once. */
const CLOCK_MS = 1_000
/** Searches of the files may take this part of the time. */
const SEARCH_SHARE = 0.1
/** About 500,000 files. If there are more, the growth of the file system decides. */
const SEARCH_MS = 30_000
/** A command that may have to be stopped is not watched for longer than this. */
const CONFIRM_MS = 5_000
/** A command waits so long for the search that began when the last one ended. */
const SETTLE_MS = 2_000
/** While a workspace is full, commands may still create this part of a limit: names, folders and links. */
const SHARE_WHILE_FULL = 0.1
const RUNNING = Number.POSITIVE_INFINITY
/** A command that only deletes changes less, and other programs often write this much. */
const NOISE: Amount = { bytes: 1_048_576, files: 64 }
/** If a file system has grown by less than this during a command, the command is not the reason that its space ends. */
const SUSPICIOUS: Amount = { bytes: 67_108_864, files: 4_096 }

/**
 * Watches how much the commands of one sandbox write to folders of the host. Asking a file system for its free space is
 * cheap, so that happens all the time. Only when a file system has grown by as much as a limit, or by so much that another level
 * of the use can be reached, the files are searched, and those that changed since the sandbox began are counted. If not all can be looked at, the growth of the file system counts.
 * Files that are deleted and still open are in no folder: they can only use the space down to the reserve.
 */
export class WorkspaceUse {
  readonly #folders: readonly string[]
  readonly #began: Moment
  /** The least that each file system used, because other programs may delete files at the same time. */
  readonly #least = new Map<number, Disk>()
  /** The file systems that hold too much of this sandbox, since the last search. */
  readonly #full = new Map<number, Full>()
  readonly #closing = new AbortController()
  readonly #searches = new Map<number, RunningSearch>()
  readonly #levels: UsageLevels
  #lastLook: Promise<unknown> = Promise.resolve()
  #later: NodeJS.Timeout | undefined

  /**
   * @param folders the workspace, and other folders of the host that commands can write
   * @param onUsage is called when the use of the workspace reaches another level
   */
  constructor(folders: readonly string[], onUsage: (usage: WorkspaceUsage) => void = () => undefined) {
    this.#folders = folders
    const { at, tick } = now()
    this.#began = { at: at - CLOCK_MS, tick }
    this.#levels = new UsageLevels(onUsage)
  }

  /**
   * Returns why the workspace is full before a command starts. Waits a moment for the search that began when the last command
   * ended.
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

  /** Short commands end before the watch could stop them, so their growth is compared with the start of the first one. */
  async #hasGrownWhileFull(device: number, disks: Disks, limits: WorkspaceLimits): Promise<boolean> {
    const [full, disk] = [this.#full.get(device), disks.get(device)]
    if (!full || !disk) return false
    full.since ??= { moment: now(), least: disk }
    const { moment: began, least } = full.since
    const growth = growthOf(least, disk)
    const allowed = { bytes: limits.bytes * SHARE_WHILE_FULL, files: limits.files * SHARE_WHILE_FULL }
    if (!isOver(growth, allowed)) return false
    // The growth may be the work of other programs.
    const signal = withTimeout(SEARCH_MS, this.#closing.signal)
    const written = await this.#count(device, allowed, { began, signal })
    return isOver(written.isComplete ? written : counted(growth), allowed)
  }

  /**
   * Watches for the duration of one command. Calls `onFull` at most once, with a sentence. Returns a function that ends the
   * watch, after a last look. A file system that cannot be asked is asked again.
   */
  watch(limits: WorkspaceLimits, onFull: (why: string) => void): () => void {
    const ended = new AbortController()
    const { signal } = ended
    const began = now()
    let isStopped = false
    const watch = async () => {
      let begun = await this.#look(limits)
      while (true) {
        await delay(EVERY_MS, signal)
        const disks = await this.#look(limits)
        // What could not be asked at the start is compared with its first answer.
        begun = new Map([...disks, ...begun])
        const why = await this.#reasonToStop(began, begun, disks)
        if (why === undefined || signal.aborted) continue
        isStopped = true
        return onFull(why)
      }
    }
    // It ends with the command.
    watch().catch(() => undefined)
    return () => {
      ended.abort()
      // What it wrote until it ended is not the work of commands that began on the full workspace.
      if (isStopped) for (const full of this.#full.values()) full.since = undefined
      this.#lastLook = this.#look(limits)
    }
  }

  async #reasonToStop(began: Moment, begun: Disks, disks: Disks): Promise<string | undefined> {
    for (const [device, disk] of disks) {
      const ofCommand = growthOf(begun.get(device) ?? disk, disk)
      if (isAlmostFull(disk) && ofCommand.bytes > SUSPICIOUS.bytes)
        return `the file system of the workspace has only ${sizeOf(disk.freeBytes)} left.`
      const why = this.#full.get(device)?.why
      // The growth may be the work of other programs.
      if (why !== undefined && isOver(ofCommand, NOISE) && (await this.#hasWritten(device, began, ofCommand)))
        return why
    }
    return undefined
  }

  /** Whether a command has written more than a command that only deletes, or may have. */
  async #hasWritten(device: number, began: Moment, growth: Amount): Promise<boolean> {
    const written = await this.#count(device, NOISE, {
      began,
      signal: withTimeout(CONFIRM_MS, this.#closing.signal),
    })
    // Folders vanish when a command deletes them, and also when it moves them to hide what it writes.
    if (written.onlyVanished) return isOver(counted(growth), SUSPICIOUS)
    return !written.isComplete || isOver(written, NOISE)
  }

  /** Asks the file systems, and begins to search those that have grown too much. */
  async #look(limits: WorkspaceLimits): Promise<Disks> {
    const disks = await disksOf(this.#folders).catch(() => new Map<number, Disk>())
    if (this.#closing.signal.aborted) return disks
    for (const [device, disk] of disks) {
      const least = leastOf(this.#least.get(device) ?? disk, disk)
      this.#least.set(device, least)
      const growth = growthOf(least, disk)
      const full = this.#full.get(device)
      if (full?.since) full.since.least = leastOf(full.since.least, disk)
      // A full workspace stays full when another program deletes files.
      const isForLimit = isOver(growth, limits) || full !== undefined
      if (isForLimit || this.#levels.canHaveChanged(device, growth, limits))
        this.#search(device, { growth, limits, isForLimit })
    }
    return disks
  }

  /**
   * One search of a file system at a time, and with pauses, because another program may be what fills it. A search for a level
   * delays none that decides whether a limit is exceeded.
   */
  #search(device: number, found: Growth): void {
    const before = this.#searches.get(device)
    const isUrgent = found.isForLimit && before?.isForLimit === false
    if (before?.next === RUNNING && !isUrgent) return
    before?.stop.abort()
    // A search that found too much is repeated at once: the command may have deleted files.
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

  /** The command may be over by then. */
  #lookLater(pauseMs: number, limits: WorkspaceLimits): void {
    this.#later ??= setTimeout(() => {
      this.#later = undefined
      this.#lastLook = this.#look(limits)
    }, pauseMs).unref()
  }

  #found(device: number, written: Written, found: Growth): void {
    const why = overLimit(written, found)
    if (why === undefined) this.#full.delete(device)
    else this.#full.set(device, { why, since: this.#full.get(device)?.since })
    const { growth, limits } = found
    const { isComplete } = written
    const { bytes, files } = isComplete ? written : atLeast(written, growth)
    this.#levels.counted(device, { usage: { bytes, files }, growth, limits, isComplete })
  }

  /** Counts the files that have changed since a moment. */
  #count(
    device: number,
    limits: Amount,
    { began, signal }: { readonly began: Moment; readonly signal: AbortSignal },
  ): Promise<Written> {
    const { at, tick } = now()
    // If the clock was set back, the new files have older times.
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

/** A time of the clock and of the machine, in milliseconds. The second cannot be set. */
interface Moment {
  readonly at: number
  readonly tick: number
}

const now = (): Moment => ({ at: Date.now(), tick: performance.now() })

interface Full {
  readonly why: string
  /** When the first command began after the workspace had become full. */
  since: { readonly moment: Moment; least: Disk } | undefined
}

type Disks = ReadonlyMap<number, Disk>

const UNKNOWN: Written = { bytes: 0, files: 0, isComplete: false }

interface Growth {
  /** Of the file system. */
  readonly growth: Amount
  readonly limits: WorkspaceLimits
  /** The file system has grown by as much as a limit. */
  readonly isForLimit: boolean
}

interface RunningSearch {
  /** When the next one may begin. */
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

const atLeast = (written: Amount, growth: Amount): Amount => ({
  bytes: Math.max(written.bytes, growth.bytes),
  files: Math.max(written.files, counted(growth).files),
})

const sizeOf = (bytes: number): string =>
  bytes >= 2 ** 30 ? `${(bytes / 2 ** 30).toFixed(1)} GiB` : `${Math.round(bytes / 2 ** 20)} MiB`
