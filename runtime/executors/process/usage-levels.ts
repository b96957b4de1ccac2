import { WORKSPACE_LEVELS, type WorkspaceUsage } from '../../../contracts/exec.ts'
import type { Amount } from './disk.ts'

/** One count of the files of a file system that this sandbox has written. */
export interface Count {
  readonly usage: Amount
  /** How much the file system had grown at that time, for whatever reason. */
  readonly growth: Amount
  readonly limits: Amount
  readonly isComplete: boolean
}

type Level = WorkspaceUsage['level']

/** A level that is reached is left only when the use is this much below it. Otherwise a command could report without end. */
const MARGIN_PERCENT = 5
const MAX_REPORTS = 100

/**
 * Reports when the use of a workspace reaches another level. The file system with the largest use counts, because the limits
 * hold for each.
 */
export class UsageLevels {
  readonly #report: (usage: WorkspaceUsage) => void
  readonly #counts = new Map<number, Count>()
  #level: Level = 0
  #reports = 0

  constructor(report: (usage: WorkspaceUsage) => void) {
    this.#report = report
  }

  /** Whether the files should be counted: the level differs if the sandbox caused all growth since the last count. */
  canHaveChanged(device: number, growth: Amount, limits: Amount): boolean {
    const usage = estimateOf(this.#counts.get(device), growth)
    const rest = [...this.#counts].filter(([other]) => other !== device).map(([, count]) => count)
    const percents = [{ usage, limits }, ...rest].map(percentOf)
    return levelOf(Math.max(...percents), this.#level) !== this.#level
  }

  counted(device: number, count: Count): void {
    this.#counts.set(device, count)
    const [fullest = count] = [...this.#counts.values()].sort(
      (one, other) => percentOf(other) - percentOf(one),
    )
    const level = levelOf(percentOf(fullest), this.#level)
    if (level === this.#level || this.#reports >= MAX_REPORTS) return
    this.#level = level
    this.#reports += 1
    const { usage, limits, isComplete } = fullest
    this.#report({ level, ...usage, maxBytes: limits.bytes, maxFiles: limits.files, isComplete })
  }
}

function estimateOf(count: Count | undefined, growth: Amount): Amount {
  if (!count) return growth
  const { usage } = count
  // Some file systems do not count files.
  const files = Number.isFinite(growth.files) ? usage.files + growth.files - count.growth.files : usage.files
  return { bytes: usage.bytes + growth.bytes - count.growth.bytes, files }
}

const percentOf = ({ usage, limits }: Pick<Count, 'usage' | 'limits'>): number =>
  100 * Math.max(usage.bytes / limits.bytes, usage.files / limits.files)

const levelOf = (percent: number, now: Level): Level =>
  WORKSPACE_LEVELS.findLast((level) => percent >= (level <= now ? level - MARGIN_PERCENT : level)) ?? 0
