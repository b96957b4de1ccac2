/** What is kept of one action. Every field is under the MAC, so none is added later without a new `version`. */
export interface AuditRecord {
  readonly version: 1
  readonly kind: 'intent' | 'outcome' | 'seal'
  /** Empty for what concerns the deployment and no run. */
  readonly runId: string
  readonly sequence: number
  readonly at: string
  readonly callId: string
  readonly actor: string
  readonly tool: string
  /** HMAC over the canonical form of the parameters, which are kept nowhere. */
  readonly paramsHash?: string
  readonly policyVersion: string
  readonly decision?: string
  readonly reasons?: readonly string[]
  /** Request id of the approval that a person gave. */
  readonly approval?: string
  readonly durationMs?: number
  readonly exitCode?: number
  readonly bytes?: number
  readonly outcome?: string
  /** In a record of kind `seal`: the final head of a run's chain. */
  readonly sealed?: AuditHead & { readonly runId: string }
  readonly keyId: string
}

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

/** Where a chain ends. Its MAC cannot be computed from the rows without the key. */
export interface AuditHead {
  readonly count: number
  readonly mac: string
}

export const EMPTY_CHAIN: AuditHead = { count: 0, mac: '' }

export interface AuditKey {
  readonly keyId: string
  readonly key: Uint8Array
}

/** The record of a row that was verified, or whose edges the caller does not depend on. */
export const recordOf = (row: Pick<AuditRow, 'record'>): AuditRecord => JSON.parse(row.record) as AuditRecord
