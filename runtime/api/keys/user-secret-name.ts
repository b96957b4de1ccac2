import { createHmac } from 'node:crypto'
import { USER_CREDENTIAL_PREFIX, USER_SECRET_PREFIX } from '../../../contracts/secrets.ts'

/** RFC 4648 in lower case, as vault names are. */
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
 * Name of a user's token in the user-token vault. Without the name key, the name cannot be derived from the user, nor
 * the user from the name. A process that knows the name can read the token.
 */
export const userSecretName = (nameKey: Uint8Array, userId: string): string =>
  USER_SECRET_PREFIX + base32(createHmac('sha256', nameKey).update(userId, 'utf8').digest())

/**
 * Name of a user's credential in the user-token vault. The GitHub token has the name that AgentHost reads. All others depend
 * on the kind and the target too.
 */
export const userCredentialSecretName = (
  nameKey: Uint8Array,
  { owner, kind, target }: { readonly owner: string; readonly kind: string; readonly target: string },
): string =>
  kind === 'github'
    ? userSecretName(nameKey, owner)
    : USER_CREDENTIAL_PREFIX +
      base32(
        createHmac('sha256', nameKey)
          .update(JSON.stringify([owner, kind, target]), 'utf8')
          .digest(),
      )
