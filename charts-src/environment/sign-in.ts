import * as z from 'zod'
import { ApiRole } from '../../contracts/api-keys.ts'
import { Scope } from '../../contracts/sign-in.ts'

/** Claims and values are separated by commas in the settings of the service. */
const Claim = z.string().regex(/^[^\s,\p{C}]{1,256}$/u, 'must be the name of a claim')
const ClaimValue = z
  .string()
  .regex(/^(?!\s)[^,\p{C}]{1,256}(?<!\s)$/u, 'must be text without a comma and without spaces at its ends')

/** A host name, because the network policy opens names. */
const HOST = '(?=[a-z0-9.-]*[a-z])[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)+'

/** Sign-in with the accounts of an OpenID Connect issuer, in addition to API keys. */
export const SignIn = z.strictObject({
  /** The claim `iss` of access tokens. The API reads its discovery document and its keys at port 443. */
  issuer: z
    .string()
    .max(150)
    .regex(
      new RegExp(`^https://${HOST}(?:/[A-Za-z0-9._~/-]*)?$`),
      'must be an https URL with a host name in lower case, without user, port, query and fragment',
    ),
  /** The host of the issuer's keys (`jwks_uri`), if it is another one than the issuer's. */
  keysHost: z
    .string()
    .max(253)
    .regex(new RegExp(`^${HOST}$`), 'must be a full host name in lower case')
    .optional(),
  /** The claim `aud` of access tokens. */
  audience: z.string().min(1).max(512),
  /** Claims that identify a person. Default: `sub`. */
  ownerClaims: z.array(Claim).min(1).max(4).optional(),
  /** The claim with the roles or groups of a person. Default: `roles`. */
  rolesClaim: Claim.optional(),
  /** The role that each value of that claim gives. */
  roles: z
    .record(ClaimValue, ApiRole)
    .refine(
      (roles) => Object.keys(roles).length > 0 && Object.keys(roles).length <= 100,
      'must have 1 to 100 values',
    ),
  /** The public client with which `agentweaver login` signs people in. Without it, `login` asks for an API key. */
  client: z
    .strictObject({
      id: z.string().regex(/^[\x21-\x7e]{1,256}$/, 'must be visible ASCII characters'),
      /** Default: `openid` and `offline_access`. */
      scopes: z
        .array(Scope)
        .max(20)
        .refine((scopes) => scopes.includes('openid'), 'must contain openid')
        .optional(),
      /** The `resource` of RFC 8707, if the issuer chooses the audience by it. */
      resource: z.url().max(512).optional(),
      /** Whether people may sign in with a device code. Default: true. */
      deviceCode: z.boolean().optional(),
    })
    .optional(),
})
export type SignIn = z.infer<typeof SignIn>

/** Hosts that the API reaches at port 443 to verify access tokens. */
export const issuerHosts = (signIn: SignIn | undefined): string[] =>
  signIn ? [new URL(signIn.issuer).hostname, ...(signIn.keysHost === undefined ? [] : [signIn.keysHost])] : []
