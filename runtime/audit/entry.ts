import { AuditEntry, DEPLOYMENT_CHAIN } from '../../contracts/audit.ts'
import { SandboxError } from '../kit/errors.ts'
import type { AuditRow } from './record.ts'

/** Parses a row. Throws `conflict` if the row was changed in the database and is invalid. */
export function entryOf({ record, mac, runId, sequence }: AuditRow): AuditEntry {
  const entry = AuditEntry.safeParse(parseObject(record, mac))
  if (entry.success) return entry.data
  throw new SandboxError(
    'conflict',
    `Record ${sequence} of ${runId || DEPLOYMENT_CHAIN} is damaged. Find all damage with \`agentweaver audit verify\`.`,
  )
}

function parseObject(record: string, mac: string): unknown {
  try {
    return { ...JSON.parse(record), mac }
  } catch {
    return undefined
  }
}
