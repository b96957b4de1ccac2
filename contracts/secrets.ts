import * as z from 'zod'

/** Prefix of the secret with a user's GitHub token in the user-token vault. */
export const USER_SECRET_PREFIX = 'ghtok-user--'

/**
 * Name of a user's secret: the prefix and the lowercase unpadded base32 of a 32-byte HMAC (52 characters). A process
 * that knows the name can read the secret, so the name is treated as a secret and never logged.
 */
export const UserSecretName = z.string().regex(/^ghtok-user--[a-z2-7]{52}$/)

/** Prefix of the secrets with all other credentials of users. */
export const USER_CREDENTIAL_PREFIX = 'usercred--'

/** Id of a version in the vault. */
export const SECRET_VERSION = /^[0-9a-f]{32}$/

/** One version of a secret in the user-token vault. */
export const UserSecret = z.strictObject({
  name: z.string().regex(/^(?:ghtok-user|usercred)--[a-z2-7]{52}$/),
  version: z.string().regex(SECRET_VERSION),
})
export type UserSecret = z.infer<typeof UserSecret>
