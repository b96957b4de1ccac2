/** What an archive came to. */
export interface ArchiveSummary {
  readonly entries: number
  /** Bytes of the files' contents. */
  readonly bytes: number
}

export interface ArchiveLimits {
  readonly maxEntries: number
  readonly maxBytes: number
}
