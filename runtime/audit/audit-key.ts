import { deriveKey, KEY_BYTES, keyFingerprint } from '../kit/derive-key.ts'
import type { AuditKey } from './record.ts'

const BASE64 = /^[A-Za-z0-9+/]{43}=\s*$/

/**
 * The audit key of a deployment, from the content of the file with its deployment key: 32 bytes, as a service keeps
 * its own, or their base64, as a deployment is given it. Undefined where it is neither.
 */
export function readAuditKey(file: Uint8Array): AuditKey | undefined {
  const text = Buffer.from(file).toString('latin1')
  const root = BASE64.test(text) ? Buffer.from(text, 'base64') : file
  if (root.length !== KEY_BYTES) return undefined
  return { keyId: keyFingerprint(root), key: deriveKey(root, 'audit') }
}
