import { delay } from '../../kit/deadline.ts'
import { type Amount, type Disk, disksOf, growthOf, isAlmostFull, isOver, leastOf } from './disk.ts'
import { type Written, writtenFiles } from './written-files.ts'

/** Why a command was stopped. The reason of its signal. */
export class WorkspaceFull extends Error {}

/** How much the commands of a sandbox may write. */
export interface WorkspaceLimits extends Amount {
  /** The size of the volume allows fewer bytes than the settings. */
  readonly isOfVolume: boolean
}

/** How often the file systems are asked while a command runs. */
const EVERY_MS = 500
/** Kernel clocks of file times lag behind by a few milliseconds. */
const CLOCK_MS = 1_000
/** A search of the files may take this part of the time. */
const SEARCH_SHARE = 0.1
/** Growth that can be the work of other programs. A command that only deletes must not be stopped. */
const NOISE: Amount = { bytes: 1_048_576, files: 64 }
/** A command that has not written this much is not the reason that the space ends. */
const SUSPICIOUS_BYTES = 67_108_864

/**
 * Watches how much the commands of one sandbox write to folders of the host. Asking a file system for its free space is
 * cheap, so that happens all the time. Only when a file system has grown by as much as a limit, the files are searched, and
 * those that changed since the sandbox began are counted. If a folder cannot be read, the growth of the file system counts.
 * Files that are deleted and still open are in no folder: they can only use the space down to the reserve.
 */
export class WorkspaceUse {
  readonly #folders: readonly string[]
  readonly #since = Date.now() - CLOCK_MS
  /** The least that each file system used, because other programs may delete files at the same time. */
  readonly #least = new Map<number, Disk>()

  /** @param folders the workspace, and other folders of the host that commands can write */
  constructor(folders: readonly string[]) {
    this.#folders = folders
  }

  /**
   * Watches for the duration of one command. Calls `onFull` at most once, with a sentence. A file system that cannot be asked
   * is not watched. Returns a function that ends the watch.
   */
  watch(limits: WorkspaceLimits, onFull: (why: string) => void): () => void {
    const ended = new AbortController()
    const watch = new Watch(this, limits, ended.signal)
    watch.untilFull().then(
      (why) => ended.signal.aborted || onFull(why),
      () => undefined,
    )
    return () => ended.abort()
  }

  async measure(): Promise<ReadonlyMap<number, Disk>> {
    const disks = await disksOf(this.#folders)
    for (const [device, disk] of disks)
      this.#least.set(device, leastOf(this.#least.get(device) ?? disk, disk))
    return disks
  }

  /** Since the sandbox began. */
  growth(device: number, disk: Disk): Amount {
    return growthOf(this.#least.get(device) ?? disk, disk)
  }

  search(device: number, limits: Amount, signal: AbortSignal): Promise<Written> {
    return writtenFiles({ folders: this.#folders, device, since: this.#since, limits, signal })
  }
}

/** The watch of one command. */
class Watch {
  readonly #use: WorkspaceUse
  readonly #limits: WorkspaceLimits
  readonly #signal: AbortSignal
  #nextSearch = 0

  constructor(use: WorkspaceUse, limits: WorkspaceLimits, signal: AbortSignal) {
    this.#use = use
    this.#limits = limits
    this.#signal = signal
  }

  /** Rejects when the watch has ended. */
  async untilFull(): Promise<string> {
    const begun = await this.#use.measure()
    while (true) {
      await delay(EVERY_MS, this.#signal)
      for (const [device, disk] of await this.#use.measure()) {
        const why = await this.#look(device, { before: begun.get(device) ?? disk, now: disk })
        if (why !== undefined) return why
      }
    }
  }

  async #look(device: number, { before, now }: Readonly<Record<'before' | 'now', Disk>>) {
    const ofCommand = growthOf(before, now)
    if (isAlmostFull(now) && ofCommand.bytes > SUSPICIOUS_BYTES)
      return `the file system of the workspace has only ${sizeOf(now.freeBytes)} left.`
    const growth = this.#use.growth(device, now)
    const isSuspicious = isOver(growth, this.#limits) && isOver(ofCommand, NOISE)
    if (!isSuspicious || performance.now() < this.#nextSearch) return undefined
    const startedAt = performance.now()
    const written = await this.#use.search(device, this.#limits, this.#signal)
    this.#nextSearch = performance.now() + (performance.now() - startedAt) / SEARCH_SHARE
    return overLimit(written.isComplete ? written : atLeast(written, growth), this.#limits)
  }
}

const atLeast = (written: Amount, growth: Amount): Amount => ({
  bytes: Math.max(written.bytes, growth.bytes),
  files: Number.isFinite(growth.files) ? Math.max(written.files, growth.files) : written.files,
})

const WRITTEN = 'the commands of this sandbox have written'
const SETTINGS =
  'Delete what is not needed. The limit comes from the settings of the run and the ceiling of the operator.'
const VOLUME = 'Delete what is not needed. The limit comes from the size of the volume.'

function overLimit({ bytes, files }: Amount, limits: WorkspaceLimits): string | undefined {
  const { isOfVolume } = limits
  if (bytes >= limits.bytes) {
    const allows = isOfVolume ? 'its volume has room for' : 'max_workspace_bytes allows'
    return `${WRITTEN} ${sizeOf(bytes)} to its workspace, and ${allows} ${sizeOf(limits.bytes)}. ${isOfVolume ? VOLUME : SETTINGS}`
  }
  if (files >= limits.files)
    return `${WRITTEN} ${files} files to its workspace, and max_workspace_files allows ${limits.files}. ${SETTINGS}`
  return undefined
}

const sizeOf = (bytes: number): string =>
  bytes >= 2 ** 30 ? `${(bytes / 2 ** 30).toFixed(1)} GiB` : `${Math.round(bytes / 2 ** 20)} MiB`
