import { createHmac } from 'node:crypto'
import type { AuditHead } from '../../contracts/audit.ts'
import { canonicalJson } from '../kit/canonical-json.ts'

/** The key has three uses. The label prevents a MAC of one use from being valid for another. */
const mac = (key: Uint8Array, use: 'params' | 'record' | 'head', parts: readonly string[]) => {
  const hmac = createHmac('sha256', key).update(`agentweaver/audit/${use}/v1`)
  for (const part of parts) hmac.update(`\0${Buffer.byteLength(part)}\0${part}`)
  return hmac.digest('hex')
}

/** Keyed, because short parameters could be guessed from a plain hash. */
export const paramsHash = (key: Uint8Array, params: unknown) => mac(key, 'params', [canonicalJson(params)])

/** Covers the record and, through the previous head, all earlier records. */
export const recordMac = (key: Uint8Array, before: AuditHead, record: string) =>
  mac(key, 'record', [before.mac, record])

/**
 * The head after a record, keyed separately: an attacker with write access to the store but without the key cannot truncate
 * a chain and forge the matching head.
 */
export const headMac = (key: Uint8Array, runId: string, after: AuditHead) =>
  mac(key, 'head', [runId, String(after.count), after.mac])
