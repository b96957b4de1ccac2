import { canonicalJson } from '../kit/canonical-json.ts'
import { type AuditRow, recordOf } from './record.ts'

/** One line per record with its MAC: enough to verify the chain again elsewhere. */
export const toJsonLines = (rows: readonly AuditRow[]): string =>
  rows.map((row) => `${canonicalJson({ ...recordOf(row), mac: row.mac })}\n`).join('')
