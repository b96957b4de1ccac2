import type { AuditEntry } from '../../contracts/audit.ts'
import { canonicalJson } from '../kit/canonical-json.ts'

/** A record with its MAC on one line, as canonical JSON. */
export const toJsonLine = (entry: AuditEntry): string => canonicalJson(entry)
