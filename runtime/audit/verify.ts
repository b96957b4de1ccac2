import type { AuditHead, AuditProblem as Problem } from '../../contracts/audit.ts'
import { equalsInConstantTime } from '../kit/constant-time.ts'
import { headMac, recordMac } from './mac.ts'
import { type AuditKey, type AuditRow, EMPTY_CHAIN, recordOf } from './record.ts'

/** `at` is the first sequence that does not hold; `problem` the likeliest reason. */
export type ChainFailure = { readonly at: number; readonly problem: Problem['problem'] }

/**
 * Follows one chain page by page, so that a long one need not be in memory. During a key rotation, pass all valid keys.
 */
export class ChainWalk {
  readonly #keys: readonly AuditKey[]
  #here = EMPTY_CHAIN

  constructor(keys: readonly AuditKey[]) {
    this.#keys = keys
  }

  /** The head after the rows so far. */
  get head(): AuditHead {
    return this.#here
  }

  /** Checks the next rows and returns the first failure. `onRow` receives each valid row. */
  follow(
    rows: readonly AuditRow[],
    onRow?: (row: AuditRow, after: AuditHead) => void,
  ): ChainFailure | undefined {
    for (const [index, row] of rows.entries()) {
      const keyId = parsed(row)?.keyId
      const key = this.#keys.find((one) => one.keyId === keyId)
      const at = this.#here.count + 1
      if (keyId !== undefined && !key) return { at, problem: 'unknownKey' }
      if (!key || !continues(this.#here, row, key)) return { at, problem: diagnose(rows, index, at) }
      this.#here = { count: at, mac: headMac(key.key, row.runId, { count: at, mac: row.mac }) }
      onRow?.(row, this.#here)
    }
    return undefined
  }

  /** Compares the end of the chain with its head. Returns the failure, or undefined if they match. */
  endsAt(head: AuditHead): ChainFailure | undefined {
    if (this.#here.count < head.count) return { at: this.#here.count + 1, problem: 'truncated' }
    return isSameHead(this.#here, head) ? undefined : { at: head.count, problem: 'edited' }
  }
}

export const isSameHead = (a: AuditHead, b: AuditHead): boolean =>
  a.count === b.count && equalsInConstantTime(a.mac, b.mac)

function parsed(row: AuditRow): ReturnType<typeof recordOf> | undefined {
  try {
    return recordOf(row)
  } catch {
    return undefined
  }
}

/**
 * The MAC covers only the record. The columns copied from it must match, or an edited column could falsify query
 * results.
 */
function continues(before: AuditHead, row: AuditRow, { key }: AuditKey): boolean {
  const record = recordOf(row)
  return (
    equalsInConstantTime(recordMac(key, before, row.record), row.mac) &&
    row.sequence === before.count + 1 &&
    row.runId === record.runId &&
    row.at === record.at &&
    row.tool === record.tool &&
    row.decision === (record.decision ?? '')
  )
}

/** Names what most likely happened at the first row that does not hold. */
function diagnose(rows: readonly AuditRow[], index: number, expected: number): Problem['problem'] {
  const row = rows[index] as AuditRow
  const found = parsed(row)?.sequence
  const isRepeated = rows.some((other, place) => place !== index && other.record === row.record)
  if (isRepeated) return 'duplicated'
  if (found === undefined || found === expected) return 'edited'
  const isElsewhere = rows.some((other) => parsed(other)?.sequence === expected)
  if (isElsewhere) return 'reordered'
  return found > expected ? 'dropped' : 'edited'
}
