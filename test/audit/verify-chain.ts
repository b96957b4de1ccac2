import type { AuditHead } from '../../contracts/audit.ts'
import type { AuditKey, AuditRow } from '../../runtime/audit/record.ts'
import { type ChainFailure, ChainWalk } from '../../runtime/audit/verify.ts'

type Verification = { readonly ok: true } | ({ readonly ok: false } & ChainFailure)

/** Checks all rows of one chain, in their stored order, against its head. */
export function verifyChain(
  rows: readonly AuditRow[],
  head: AuditHead,
  keys: readonly AuditKey[],
): Verification {
  const walk = new ChainWalk(keys)
  const failure = walk.follow(rows) ?? walk.endsAt(head)
  return failure ? { ok: false, ...failure } : { ok: true }
}
