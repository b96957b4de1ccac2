import type { AuditHead, AuditRecord } from '../../contracts/audit.ts'

/** A record in its chain: the canonical JSON that `mac` covers, and copies of what queries look for. */
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

/** The record of a row that was verified, or whose edges the caller does not depend on. */
export const recordOf = (row: Pick<AuditRow, 'record'>): AuditRecord => JSON.parse(row.record) as AuditRecord
