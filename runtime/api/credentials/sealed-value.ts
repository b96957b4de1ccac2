import { createCipheriv, createDecipheriv, createHmac, randomBytes } from 'node:crypto'
import { deriveKey } from '../../kit/derive-key.ts'
import { SandboxError } from '../../kit/errors.ts'
import type { UserCredentialRow } from '../../store/service-rows.ts'

const CIPHER = 'aes-256-gcm'
const NONCE_BYTES = 12
const TAG_BYTES = 16
const FINGERPRINT_DIGITS = 16

type Of = Pick<UserCredentialRow, 'owner' | 'kind' | 'target' | 'user'>
type Sealed = Of & Pick<UserCredentialRow, 'fingerprint' | 'sealed' | 'keyId'>

/** The fields that a sealed value belongs to. A value that is copied into another row cannot be opened. */
const boundTo = ({ owner, kind, target, user }: Of, fingerprint: string): Buffer =>
  Buffer.from(JSON.stringify([owner, kind, target, user ?? null, fingerprint]))

/** Encrypts the values of users with a key that is derived from the deployment key. */
export function createSeal({ key, keyId }: { readonly key: Uint8Array; readonly keyId: string }) {
  const sealKey = deriveKey(key, 'seal')
  const fingerprintKey = deriveKey(key, 'fingerprint')
  return {
    keyId,
    /** Without the key, a value cannot be guessed from its fingerprint. The same value of another owner has another one. */
    fingerprintOf: ({ owner, kind, target, user }: Of, value: string): string =>
      createHmac('sha256', fingerprintKey)
        .update(JSON.stringify([owner, kind, target, user ?? null, value]))
        .digest('hex')
        .slice(0, FINGERPRINT_DIGITS),

    seal(of: Of, fingerprint: string, value: string): string {
      const nonce = randomBytes(NONCE_BYTES)
      const cipher = createCipheriv(CIPHER, sealKey, nonce)
      cipher.setAAD(boundTo(of, fingerprint))
      const text = Buffer.concat([cipher.update(value, 'utf8'), cipher.final()])
      return Buffer.concat([nonce, cipher.getAuthTag(), text]).toString('base64url')
    },

    /** Throws `credential_unavailable` without the value or its cause. */
    open(row: Sealed): string {
      const bytes = Buffer.from(row.sealed, 'base64url')
      try {
        const decipher = createDecipheriv(CIPHER, sealKey, bytes.subarray(0, NONCE_BYTES), {
          authTagLength: TAG_BYTES,
        })
        decipher.setAAD(boundTo(row, row.fingerprint))
        decipher.setAuthTag(bytes.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES))
        return (
          decipher.update(bytes.subarray(NONCE_BYTES + TAG_BYTES), undefined, 'utf8') + decipher.final('utf8')
        )
      } catch {
        const why =
          row.keyId === keyId ? 'it was changed in the store' : 'it was set under another deployment key'
        // biome-ignore lint/style/useErrorCause: nothing about the value belongs into an error.
        throw new SandboxError(
          'credential_unavailable',
          `the ${row.kind} credential for ${row.target} cannot be read, because ${why}; set it again`,
        )
      }
    },
  }
}

export type Seal = ReturnType<typeof createSeal>
