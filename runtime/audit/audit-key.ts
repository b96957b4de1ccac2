import { deriveKey, KEY_BYTES, keyFingerprint } from '../kit/derive-key.ts'
import type { AuditKey } from './record.ts'

const BASE64 = /^[A-Za-z0-9+/]{43}=\s*$/

/**
 * Derives the audit key from the content of a deployment key file: 32 raw bytes or their base64. Returns undefined for any
 * other content.
 */
export function readAuditKey(file: Uint8Array): AuditKey | undefined {
  const text = Buffer.from(file).toString('latin1')
  const root = BASE64.test(text) ? Buffer.from(text, 'base64') : file
  if (root.length !== KEY_BYTES) return undefined
  return { keyId: keyFingerprint(root), key: deriveKey(root, 'audit') }
}
