import * as z from 'zod'

export const KEY_LIMITS = { maxDays: 366, defaultDays: 90, maxPerOwner: 100 } as const

/**
 * What a caller may do. `user`: everything with the own runs. `approver`: also follow the runs of others and decide their
 * requests. `auditor`: read all runs and the audit, change nothing. `operator`: everything.
 */
export const ApiRole = z.enum(['user', 'auditor', 'approver', 'operator'])
export type ApiRole = z.infer<typeof ApiRole>

/** `key_` and a UUID, unless an operator inserted the row by hand. */
export const KeyId = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/)

const VISIBLE = /^[^\p{C}\p{Zl}\p{Zp}]*$/u
const line = (max: number) =>
  z
    .string()
    .min(1)
    .max(max)
    .regex(VISIBLE, 'must be one line without control characters')
    .refine((text) => text.trim() !== '', 'must not be empty')

export const CreateApiKey = z.strictObject({
  /** What the key is for, for people who read the list of keys. */
  name: line(100),
  /** Default: the caller. Only operators create keys for others. */
  owner: line(256).optional(),
  role: ApiRole.default('user'),
  /** Default: 90 days, or less if the key of this request expires earlier. */
  expiresInDays: z.int().min(1).max(KEY_LIMITS.maxDays).optional(),
})
export type CreateApiKey = z.infer<typeof CreateApiKey>
export type CreateApiKeyInput = z.input<typeof CreateApiKey>

const When = z.iso.datetime()

/** An API key, without its secret. */
export const ApiKey = z.object({
  id: KeyId,
  /** Absent for the first key of a store. */
  name: z.string().optional(),
  owner: z.string(),
  role: ApiRole,
  state: z.enum(['active', 'expired', 'revoked']),
  createdAt: When,
  /** Owner who created the key. Absent if the service created it. */
  createdBy: z.string().optional(),
  /** The key that created this one. */
  createdWith: KeyId.optional(),
  /** Absent for the first key of a store, which does not expire. */
  expiresAt: When.optional(),
  /** Accurate to a minute. Absent if the key was never used. */
  lastUsedAt: When.optional(),
  revokedAt: When.optional(),
  revokedBy: z.string().optional(),
})
export type ApiKey = z.infer<typeof ApiKey>
export const ApiKeyPage = z.object({ items: z.array(ApiKey), next: z.string().optional() })
export type ApiKeyPage = z.infer<typeof ApiKeyPage>

/** The caller of a request, as its credential shows it. */
export const Me = z.object({
  /** Owner of the caller's runs. */
  owner: z.string(),
  role: ApiRole,
  /** The API key of the request. Absent with an access token. */
  keyId: KeyId.optional(),
  /** The issuer of the access token. Absent with an API key. */
  issuer: z.string().optional(),
  /** When the key or the access token expires. Absent for a key that does not expire. */
  expiresAt: When.optional(),
})
export type Me = z.infer<typeof Me>

/** The only response with the secret. The service stores its hash. */
export const CreatedApiKey = ApiKey.extend({ key: z.string() })
export type CreatedApiKey = z.infer<typeof CreatedApiKey>

export const RevokedApiKey = ApiKey.extend({
  /** Active keys that were created with the revoked key. They stay active; at most 100 are listed. */
  stillActive: z.array(KeyId),
})
export type RevokedApiKey = z.infer<typeof RevokedApiKey>
