import { equalsInConstantTime } from '../kit/constant-time.ts'
import { headMac, recordMac } from './mac.ts'
import {
  type AuditHead,
  type AuditKey,
  type AuditRecord,
  type AuditRow,
  EMPTY_CHAIN,
  recordOf,
} from './record.ts'

export type AuditProblem = 'dropped' | 'reordered' | 'edited' | 'truncated' | 'duplicated' | 'unknownKey'

export type Verification =
  | { readonly ok: true }
  /** `at` is the first sequence that does not hold; `problem` the likeliest reason. */
  | { readonly ok: false; readonly at: number; readonly problem: AuditProblem }

/** Checks all rows of one chain, in their stored order, against its head. Keys in rotation are given together. */
export function verifyChain(
  rows: readonly AuditRow[],
  head: AuditHead,
  keys: readonly AuditKey[],
): Verification {
  let here = EMPTY_CHAIN
  for (const [index, row] of rows.entries()) {
    const record = parsed(row)
    const key = keys.find(({ keyId }) => keyId === record?.keyId)
    if (record && !key) return { ok: false, at: index + 1, problem: 'unknownKey' }
    if (!record || !key || !continues(here, row, { record, key })) {
      return { ok: false, at: index + 1, problem: diagnose(rows, index) }
    }
    const after = { count: here.count + 1, mac: row.mac }
    here = { count: after.count, mac: headMac(key.key, row.runId, after) }
  }
  if (here.count < head.count) return { ok: false, at: here.count + 1, problem: 'truncated' }
  if (here.count === head.count && equalsInConstantTime(here.mac, head.mac)) return { ok: true }
  return { ok: false, at: head.count, problem: 'edited' }
}

function parsed(row: AuditRow): AuditRecord | undefined {
  try {
    return recordOf(row)
  } catch {
    return undefined
  }
}

/** The MAC covers the record; the copies beside it must say the same, or queries could be lied to. */
function continues(
  before: AuditHead,
  row: AuditRow,
  { record, key }: { record: AuditRecord; key: AuditKey },
): boolean {
  return (
    equalsInConstantTime(recordMac(key.key, before, row.record), row.mac) &&
    row.sequence === before.count + 1 &&
    row.runId === record.runId &&
    row.at === record.at &&
    row.tool === record.tool &&
    row.decision === (record.decision ?? '')
  )
}

/** Names what most likely happened at the first row that does not hold. */
function diagnose(rows: readonly AuditRow[], index: number): AuditProblem {
  const expected = index + 1
  const row = rows[index] as AuditRow
  const found = parsed(row)?.sequence
  const isRepeated = rows.some((other, place) => place !== index && other.record === row.record)
  if (isRepeated) return 'duplicated'
  if (found === undefined || found === expected) return 'edited'
  const isElsewhere = rows.some((other) => parsed(other)?.sequence === expected)
  if (isElsewhere) return 'reordered'
  return found > expected ? 'dropped' : 'edited'
}

/** The head that a run had when it was sealed, from the rows of a verified deployment chain. */
export function sealedHead(deployment: readonly AuditRow[], runId: string): AuditHead | undefined {
  const seal = deployment
    .map(recordOf)
    .findLast(({ kind, sealed }) => kind === 'seal' && sealed?.runId === runId)
  return seal?.sealed && { count: seal.sealed.count, mac: seal.sealed.mac }
}
