import * as z from 'zod'

/** Prefix of the secret with a user's GitHub token in the user-token vault. */
export const USER_SECRET_PREFIX = 'ghtok-user--'

/**
 * Name of a user's secret: the prefix and the lowercase unpadded base32 of a 32-byte HMAC (52 characters). A process
 * that knows the name can read the secret, so the name is treated as a secret and never logged.
 */
export const UserSecretName = z.string().regex(/^ghtok-user--[a-z2-7]{52}$/)
