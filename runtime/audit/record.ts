import type { AuditHead, AuditRecord } from '../../contracts/audit.ts'

/** A stored record: the canonical JSON that `mac` covers, and copies of the fields that queries filter by. */
export interface AuditRow {
  readonly runId: string
  readonly sequence: number
  readonly at: string
  readonly tool: string
  readonly decision: string
  readonly record: string
  readonly mac: string
}

export const EMPTY_CHAIN: AuditHead = { count: 0, mac: '' }

export interface AuditKey {
  readonly keyId: string
  readonly key: Uint8Array
}

/** Parses without validation, for rows that were verified. */
export const recordOf = (row: Pick<AuditRow, 'record'>): AuditRecord => JSON.parse(row.record) as AuditRecord
