import {
  decodeJwt,
  decodeProtectedHeader,
  errors,
  type JWTPayload,
  jwtVerify,
  type ProtectedHeaderParameters,
} from 'jose'
import type { ApiRole } from '../../../contracts/api-keys.ts'
import { SandboxError } from '../../kit/errors.ts'
import { createIssuerKeys, unreachable } from './issuer-keys.ts'

export interface SignInSettings {
  readonly issuer: string
  readonly audience: string
  /** Claims that identify a person at the issuer. */
  readonly ownerClaims: readonly string[]
  readonly rolesClaim: string
  /** Values of that claim, and the role that each gives. */
  readonly roles: ReadonlyMap<string, ApiRole>
}

export interface SignedIn {
  readonly owner: string
  readonly role: ApiRole
  readonly issuer: string
  /** False for a program that requested the token for itself (client credentials). */
  readonly isPerson: boolean
  /** Milliseconds since 1970. */
  readonly expiresAt: number
}

/** Verifies an access token. `unauthenticated` for the token, `forbidden` for the person, `unavailable` for the issuer. */
export interface SignIn {
  verify(token: string): Promise<SignedIn>
}

/** Symmetric algorithms and `none` are excluded: a public key is no secret. */
const ALGORITHMS = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA']
const LEEWAY_SECONDS = 30
const COOLDOWN_MS = 10_000
/** Owners are part of other rows and of requests, which limit their length. */
const MAX_OWNER = 256

type Options = { readonly now: () => Date; readonly cooldownMs?: number }

/** Sign-in with access tokens (RFC 9068) that an OpenID Connect issuer made for this API. */
export function createSignIn(settings: SignInSettings, { now, cooldownMs = COOLDOWN_MS }: Options): SignIn {
  const { issuer, audience } = settings
  const issuerKeys = createIssuerKeys({ issuer, now, cooldownMs })

  async function payloadOf(token: string): Promise<JWTPayload> {
    refuseEarly(token, settings)
    const keys = await issuerKeys()
    try {
      const { payload } = await jwtVerify(token, keys, {
        issuer,
        audience,
        algorithms: ALGORITHMS,
        clockTolerance: LEEWAY_SECONDS,
        currentDate: now(),
        requiredClaims: ['exp', 'iat'],
      })
      return payload
    } catch (error) {
      throw refusalOf(error, settings)
    }
  }

  return {
    async verify(token) {
      const payload = await payloadOf(token)
      return {
        owner: ownerOf(payload, settings),
        role: roleOf(payload, settings),
        issuer,
        isPerson: !isOfProgram(payload),
        expiresAt: ((payload.exp ?? 0) + LEEWAY_SECONDS) * 1000,
      }
    },
  }
}

const refused = (message: string, cause?: unknown): SandboxError =>
  new SandboxError('unauthenticated', message, { cause })

/** Refuses what needs no key, so that such a token causes no request to the issuer. */
function refuseEarly(token: string, { issuer }: SignInSettings): void {
  const { header, payload } = decode(token)
  if (!ALGORITHMS.includes(header.alg ?? ''))
    throw refused('The access token is not signed with an asymmetric algorithm.')
  if (payload.iss !== issuer) throw refused('The access token is from another issuer.')
  if (!isAccessToken(header, payload))
    throw refused(
      'This is not an access token. Request an access token for this API; an ID token is for the client that signed you in.',
    )
}

function decode(token: string): { header: ProtectedHeaderParameters; payload: JWTPayload } {
  try {
    return { header: decodeProtectedHeader(token), payload: decodeJwt(token) }
  } catch (error) {
    throw refused('The bearer token is neither an API key nor an access token.', error)
  }
}

/** RFC 9068, section 2.2: without a person, the subject is the client. Entra ID marks such tokens with `idtyp` instead. */
const isOfProgram = (payload: JWTPayload): boolean => {
  const clients = [payload['client_id'], payload['azp'], payload['appid']]
  return (
    payload['idtyp'] === 'app' ||
    payload['gty'] === 'client-credentials' ||
    payload.sub === undefined ||
    clients.includes(payload.sub)
  )
}

const ONLY_IN_ID_TOKENS = ['nonce', 'at_hash', 'c_hash', 's_hash']

/** RFC 9068 names the type. Tokens of older issuers have a scope, which an ID token does not have. */
function isAccessToken({ typ }: ProtectedHeaderParameters, payload: JWTPayload): boolean {
  const type = typ?.toLowerCase().replace(/^application\//, '')
  if (type === 'at+jwt') return true
  if (type !== undefined && type !== 'jwt') return false
  const scope = payload['scope'] ?? payload['scp']
  const hasScope = (typeof scope === 'string' && scope !== '') || (Array.isArray(scope) && scope.length > 0)
  return hasScope && ONLY_IN_ID_TOKENS.every((claim) => payload[claim] === undefined)
}

const CLAIM_PROBLEMS: Readonly<Record<string, string>> = {
  aud: 'The access token is for another audience.',
  iss: 'The access token is from another issuer.',
  nbf: 'The access token is not valid yet.',
}

function refusalOf(error: unknown, { issuer }: SignInSettings): SandboxError {
  if (error instanceof errors.JWTExpired)
    return refused('The access token has expired. Sign in again.', error)
  if (error instanceof errors.JWTClaimValidationFailed)
    return refused(
      CLAIM_PROBLEMS[error.claim] ?? `The access token has no valid claim ${error.claim}.`,
      error,
    )
  const isOfToken =
    error instanceof errors.JWSSignatureVerificationFailed ||
    error instanceof errors.JWKSNoMatchingKey ||
    error instanceof errors.JWKSMultipleMatchingKeys ||
    error instanceof errors.JOSEAlgNotAllowed ||
    error instanceof errors.JOSENotSupported ||
    error instanceof errors.JWSInvalid ||
    error instanceof errors.JWTInvalid
  return isOfToken
    ? refused('The signature of the access token is not valid.', error)
    : unreachable(issuer, error)
}

/** Unambiguous: an issuer has no `#`, and the values are encoded. */
function ownerOf(payload: JWTPayload, { issuer, ownerClaims }: SignInSettings): string {
  const values = ownerClaims.map((claim) => {
    const value = payload[claim]
    if (typeof value === 'string' && value !== '') return encodeURIComponent(value)
    throw refused(`The access token has no claim ${claim}, which identifies its person.`)
  })
  const owner = `${issuer}#${values.join('/')}`
  if (owner.length <= MAX_OWNER) return owner
  throw new SandboxError('forbidden', `The claims that identify you are longer than ${MAX_OWNER} characters.`)
}

function roleOf(payload: JWTPayload, settings: SignInSettings): ApiRole {
  const { rolesClaim, roles } = settings
  refuseOverage(payload, rolesClaim)
  const claim = payload[rolesClaim]
  const values = typeof claim === 'string' ? [claim] : Array.isArray(claim) ? claim : []
  const given = new Set(values.flatMap((value) => roles.get(value) ?? []))
  if (given.has('operator')) return 'operator'
  if (given.has('auditor') && given.size > 1)
    throw new SandboxError(
      'forbidden',
      'You have the role auditor and another one. An auditor changes nothing, so ask your administrator to remove one of them.',
    )
  const role = (['approver', 'user', 'auditor'] as const).find((one) => given.has(one))
  if (role !== undefined) return role
  throw new SandboxError(
    'forbidden',
    `You are signed in, but no value of the claim ${rolesClaim} gives you a role here. Ask your administrator for one of the roles of this service.`,
  )
}

/** An issuer that leaves out a long list of groups would otherwise silently take away a role. */
function refuseOverage(payload: JWTPayload, rolesClaim: string): void {
  const elsewhere = payload['_claim_names']
  const isElsewhere =
    typeof elsewhere === 'object' && elsewhere !== null && Object.hasOwn(elsewhere, rolesClaim)
  const isLeftOut =
    rolesClaim === 'groups' && (payload['hasgroups'] === true || payload['hasgroups'] === 'true')
  if (!isElsewhere && !isLeftOut) return
  throw new SandboxError(
    'forbidden',
    `You are in too many groups: the issuer left the claim ${rolesClaim} out of your token, so your role is unknown. Ask your administrator to use app roles, or only the groups that are assigned to the application.`,
  )
}
