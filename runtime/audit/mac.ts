import { createHmac } from 'node:crypto'
import type { AuditHead } from '../../contracts/audit.ts'
import { canonicalJson } from '../kit/canonical-json.ts'

/** One key, three uses: the label in front keeps a MAC of one use from being taken for another. */
const mac = (key: Uint8Array, use: 'params' | 'record' | 'head', parts: readonly string[]) => {
  const hmac = createHmac('sha256', key).update(`agentweaver/audit/${use}/v1`)
  for (const part of parts) hmac.update(`\0${Buffer.byteLength(part)}\0${part}`)
  return hmac.digest('hex')
}

/** Keyed, since the parameters of a short command could be guessed from a plain hash. */
export const paramsHash = (key: Uint8Array, params: unknown) => mac(key, 'params', [canonicalJson(params)])

/** Covers a record and, through the head before it, every record before it. */
export const recordMac = (key: Uint8Array, before: AuditHead, record: string) =>
  mac(key, 'record', [before.mac, record])

/**
 * The head after a record. It is derived with the key once more, so that whoever can write the store but has
 * no key cannot cut rows off and put the head that belonged to what is left.
 */
export const headMac = (key: Uint8Array, runId: string, after: AuditHead) =>
  mac(key, 'head', [runId, String(after.count), after.mac])
