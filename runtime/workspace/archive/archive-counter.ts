import { FileFault } from '../file-fault.ts'
import type { ArchiveLimits, ArchiveSummary } from './archive-summary.ts'

/** Counts entries and bytes. Throws with the name of the entry that exceeds a limit. */
export class ArchiveCounter implements ArchiveSummary {
  readonly #limits: ArchiveLimits
  entries = 0
  bytes = 0

  constructor(limits: ArchiveLimits) {
    this.#limits = limits
  }

  addEntry(name: string): void {
    this.entries++
    if (this.entries <= this.#limits.maxEntries) return
    throw new FileFault('too_large', `${name}: an archive has at most ${this.#limits.maxEntries} members`)
  }

  addBytes(name: string, bytes: number): void {
    this.bytes += bytes
    if (this.bytes <= this.#limits.maxBytes) return
    throw new FileFault('too_large', `${name}: an archive may contain at most ${this.#limits.maxBytes} bytes`)
  }
}
