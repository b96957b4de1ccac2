import * as z from 'zod'
import { CredentialId } from './egress.ts'

/**
 * What people can set for their own runs. `github`: a token for GitHub, for git and Copilot. `git`: a token of another git server.
 * `openai-compatible`: the key of the service's model server. `registry`: a token of one package registry.
 */
export const UserCredentialKind = z.enum(['github', 'git', 'openai-compatible', 'registry'])
export type UserCredentialKind = z.infer<typeof UserCredentialKind>

/** An owner can have one credential of these kinds for each host. */
export const HOST_KINDS: ReadonlySet<UserCredentialKind> = new Set(['git', 'registry'])

export const USER_CREDENTIAL_LIMITS = {
  perOwner: 32,
  minLength: 16,
  maxLength: 4096,
  minDistinct: 8,
} as const

const { minLength, maxLength, minDistinct } = USER_CREDENTIAL_LIMITS

/** Ordinary output also contains shorter or repetitive text, and the redactor would hide it there. */
const Secret = z
  .string()
  .regex(
    new RegExp(`^[\\x21-\\x7e]{${minLength},${maxLength}}$`),
    `must be one line of ${minLength} to ${maxLength} visible ASCII characters`,
  )
  .refine(
    (value) => new Set(value).size >= minDistinct,
    `must have ${minDistinct} different characters or more`,
  )

const Host = z.string().regex(/^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/i, 'must be the name of a host')

/** `PUT /api/me/credentials/{kind}`. */
export const SetUserCredential = z.strictObject({
  value: Secret,
  /** Only for `git` and `registry`, which need it: the host of the server. */
  host: Host.optional(),
  /**
   * Only for `git` and `registry`: the user of Basic authentication. Without it, a git server gets `x-access-token`, and a registry a
   * bearer token.
   */
  user: z
    .string()
    .regex(/^[\x21-\x39\x3b-\x7e]{1,128}$/, 'must be of visible ASCII characters without ":"')
    .optional(),
  /** `false`: stores the value without asking its server whether it accepts it. @default true */
  check: z.boolean().optional(),
})
export type SetUserCredential = z.infer<typeof SetUserCredential>

export const UserCredentialQuery = z.strictObject({
  /** Only for `git` and `registry`, which need it: the host of the server. */
  host: Host.optional(),
})
export type UserCredentialQuery = z.infer<typeof UserCredentialQuery>

const When = z.iso.datetime()

/** A credential without its value, which no response contains. */
export const UserCredential = z.object({
  kind: UserCredentialKind,
  /** The server that gets the credential: a host, or the base URL of a model server. */
  target: z.string(),
  user: z.string().optional(),
  /** Differs for different values. The value cannot be derived from it. */
  fingerprint: z.string(),
  /** Its name in `egress.credential_used`. */
  credentialId: CredentialId,
  setAt: When,
  /** Accurate to a minute. Absent if it was never used. */
  lastUsedAt: When.optional(),
})
export type UserCredential = z.infer<typeof UserCredential>

export const SetUserCredentialAnswer = UserCredential.extend({
  /** Why the server of the credential was not asked whether it accepts the value. Absent if it accepts it. */
  unchecked: z.string().optional(),
})
export type SetUserCredentialAnswer = z.infer<typeof SetUserCredentialAnswer>

export const UserCredentialList = z.object({ items: z.array(UserCredential) })
export type UserCredentialList = z.infer<typeof UserCredentialList>
