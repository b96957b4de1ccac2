/**
 * A stored record of a run's audit chain. `record` is the JSON that `mac` covers; the other columns are for queries.
 */
export interface AuditRow {
  readonly runId: string
  readonly sequence: number
  readonly at: string
  readonly tool: string
  /** Empty where the record carries no decision. */
  readonly decision: string
  readonly record: string
  readonly mac: string
}
/**
 * The end of a chain. Its MAC differs from the MAC of the last row, so an attacker who deletes rows cannot compute an
 * older head.
 */
export interface AuditHead {
  readonly count: number
  readonly mac: string
}
export interface AuditQuery {
  readonly runId?: string
  readonly tool?: string
  readonly decision?: string
  /** From this time on. */
  readonly since?: string
  /** Before this time. */
  readonly until?: string
  /** The `next` of the page before. */
  readonly after?: string
  readonly limit: number
}

export interface AuditReads {
  readAudit(query: AuditQuery): Promise<{ items: AuditRow[]; next?: string }>
  /**
   * Reads the current head of a chain without a lock; undefined if the run does not exist. The deployment's chain never
   * ends.
   */
  readAuditHead(runId: string): Promise<(AuditHead & { readonly isEnded: boolean }) | undefined>
  /** The smallest id of a run, or run id in the audit, that is greater than this one. */
  nextAuditChain(among: 'runs' | 'records', after: string): Promise<string | undefined>
}
