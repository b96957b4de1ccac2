import { createHmac } from 'node:crypto'
import { USER_SECRET_PREFIX } from '../../../contracts/secrets.ts'

/** Of RFC 4648, in the lower case that names in a vault have. */
const BASE32 = 'abcdefghijklmnopqrstuvwxyz234567'

function base32(bytes: Uint8Array): string {
  let text = ''
  let held = 0
  let bits = 0
  for (const byte of bytes) {
    held = ((held << 8) | byte) & 0xffff
    bits += 8
    for (; bits >= 5; bits -= 5) text += BASE32[(held >> (bits - 5)) & 31]
  }
  return bits === 0 ? text : text + BASE32[(held << (5 - bits)) & 31]
}

/**
 * Under what name a user's token lies in the vault of users' tokens. Nobody without the name key can tell it from
 * the user, or the user from it, so to know it is the right to read it.
 */
export const userSecretName = (nameKey: Uint8Array, userId: string): string =>
  USER_SECRET_PREFIX + base32(createHmac('sha256', nameKey).update(userId, 'utf8').digest())
