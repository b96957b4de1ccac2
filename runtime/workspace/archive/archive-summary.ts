/** Totals of an archive. */
export interface ArchiveSummary {
  readonly entries: number
  /** Size of all file contents. */
  readonly bytes: number
}

export interface ArchiveLimits {
  readonly maxEntries: number
  readonly maxBytes: number
}
