import * as z from 'zod'
import { ApiRole } from './api-keys.ts'
import { Scope } from './sign-in.ts'

const LOOPBACK = new Set(['127.0.0.1', '[::1]', 'localhost'])

/** https, or http on this machine. The owners of runs contain it, so it has one spelling. */
const isIssuer = (text: string): boolean => {
  if (!URL.canParse(text) || /[?#@\s\\]/.test(text)) return false
  const { protocol, hostname } = new URL(text)
  return protocol === 'https:' || (protocol === 'http:' && LOOPBACK.has(hostname))
}

const CLAIM = /^[^\s,\p{C}]{1,256}$/u
const names = (text: string, context: z.RefinementCtx) => {
  const claims = text.split(',').map((name) => name.trim())
  if (claims.length <= 4 && claims.every((name) => CLAIM.test(name))) return claims
  context.addIssue({ code: 'custom', message: 'must be one to four names of claims, separated by ","' })
  return z.NEVER
}

/** `VALUE=ROLE`, separated by `,`. */
const rolePairs = (text: string, context: z.RefinementCtx) => {
  const pairs = text.split(',').map((pair) => {
    const at = pair.lastIndexOf('=')
    return [pair.slice(0, at).trim(), ApiRole.safeParse(pair.slice(at + 1).trim()).data] as const
  })
  const known = pairs.flatMap(([value, role]) => (value !== '' && role ? [[value, role] as const] : []))
  const map = new Map(known)
  if (map.size === pairs.length && map.size <= 100) return map
  const roles = ApiRole.options.join(', ')
  context.addIssue({
    code: 'custom',
    message: `must be VALUE=ROLE, separated by ",", each value once; the roles are ${roles}`,
  })
  return z.NEVER
}

/** The ID token, which `openid` asks for, carries the nonce that binds a response to its request. */
const scopes = (text: string, context: z.RefinementCtx) => {
  const values = text.split(/[\s,]+/).filter((value) => value !== '')
  const areScopes = values.length <= 20 && values.every((value) => Scope.safeParse(value).success)
  if (areScopes && values.includes('openid')) return values
  context.addIssue({
    code: 'custom',
    message: 'must be up to 20 scopes with spaces between them, one of them openid',
  })
  return z.NEVER
}

/** Sign-in with access tokens of an OpenID Connect issuer. All of these keys need `AGENTWEAVER_OIDC_ISSUER`. */
export const SIGN_IN_ENV = {
  /** The `iss` of the tokens, such as `https://login.microsoftonline.com/TENANT/v2.0`. Its discovery document names the keys. */
  AGENTWEAVER_OIDC_ISSUER: z
    .string()
    .max(150)
    .refine(isIssuer, 'must be an https URL without user, query and fragment; http only on this machine')
    .optional(),
  /** The `aud` that a token must have: the API as the issuer knows it. */
  AGENTWEAVER_OIDC_AUDIENCE: z.string().min(1).max(512).optional(),
  /** Claims that identify a person at the issuer, separated by `,`. Default: `sub`. With Entra ID: `tid,oid`. */
  AGENTWEAVER_OIDC_OWNER_CLAIMS: z.string().transform(names).optional(),
  /** Claim with the roles or groups of a person. Default: `roles`. */
  AGENTWEAVER_OIDC_ROLES_CLAIM: z.string().regex(CLAIM, 'must be the name of a claim').optional(),
  /** Which values of that claim give which role, such as `sandbox-users=user,sandbox-admins=operator`. */
  AGENTWEAVER_OIDC_ROLES: z.string().transform(rolePairs).optional(),
  /** Public client of the issuer with which `agentweaver login` signs people in. Without it, it asks for an API key. */
  AGENTWEAVER_OIDC_CLIENT_ID: z
    .string()
    .regex(/^[\x21-\x7e]{1,256}$/, 'must be visible ASCII characters')
    .optional(),
  /** Scopes that this client requests, with spaces between them. Default: `openid offline_access`. */
  AGENTWEAVER_OIDC_SCOPES: z.string().transform(scopes).optional(),
  /** The `resource` that this client requests (RFC 8707), for issuers that choose the audience by it. Not with Entra ID. */
  AGENTWEAVER_OIDC_RESOURCE: z.url().max(512).optional(),
  /** `false`: people sign in with a browser on the same machine only, not with a device code. */
  AGENTWEAVER_OIDC_DEVICE_CODE: z.stringbool().optional(),
} as const

type SignInEnv = { readonly [K in keyof typeof SIGN_IN_ENV]?: unknown }

/** Settings that miss others. */
export function signInContradictions(env: SignInEnv): (readonly [boolean, string, string])[] {
  const issuer = 'AGENTWEAVER_OIDC_ISSUER'
  const hasIssuer = env[issuer] !== undefined
  const needed = ['AGENTWEAVER_OIDC_AUDIENCE', 'AGENTWEAVER_OIDC_ROLES'] as const
  const client = 'AGENTWEAVER_OIDC_CLIENT_ID'
  const others = [...needed, 'AGENTWEAVER_OIDC_OWNER_CLAIMS', 'AGENTWEAVER_OIDC_ROLES_CLAIM', client] as const
  const ofClient = [
    'AGENTWEAVER_OIDC_SCOPES',
    'AGENTWEAVER_OIDC_RESOURCE',
    'AGENTWEAVER_OIDC_DEVICE_CODE',
  ] as const
  return [
    ...needed.map((key) => [hasIssuer && env[key] === undefined, key, `is required with ${issuer}`] as const),
    ...others.map((key) => [!hasIssuer && env[key] !== undefined, key, `needs ${issuer}`] as const),
    ...ofClient.map(
      (key) => [env[client] === undefined && env[key] !== undefined, key, `needs ${client}`] as const,
    ),
  ]
}
