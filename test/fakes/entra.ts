import { generateKeyPairSync, randomUUID } from 'node:crypto'
import { createLocalJWKSet, errors, exportJWK, type JSONWebKeySet, jwtVerify, SignJWT } from 'jose'
import { type FakeAnswer, type FakeRequest, type HttpsFakeOptions, startHttpsFake } from './https-fake.ts'

/** Which cluster identity may act as which Azure identity. */
export interface FederatedCredential {
  readonly clientId: string
  readonly issuer: string
  readonly subject: string
  /** @default api://AzureADTokenExchange */
  readonly audience?: string
}

export interface EntraOptions extends Pick<HttpsFakeOptions, 'tls' | 'listen'> {
  readonly tenantId: string
  /** Where clients reach it, such as `https://login.microsoftonline.com`. */
  readonly authority: string
  readonly federated: readonly FederatedCredential[]
  /** Public keys of a cluster's issuer, as its discovery document names them. */
  readonly issuerKeys: (issuer: string) => Promise<JSONWebKeySet>
  /** @default an hour */
  readonly tokenSeconds?: number
  /** Called with each token before its client gets it. */
  readonly onToken?: (token: string, audience: string) => Promise<void>
}

const JWT_BEARER = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer'
const EXCHANGE_AUDIENCE = 'api://AzureADTokenExchange'

let keys: ReturnType<typeof makeKeys> | undefined
const makeKeys = () => generateKeyPairSync('rsa', { modulusLength: 2048 })
/** One key pair for all fakes in this process, because its generation is the slowest step here. */
const signingKeys = () => {
  keys ??= makeKeys()
  return keys
}

/**
 * The parts of Microsoft Entra's token endpoint that workload identity needs: OpenID discovery, and access tokens for
 * assertions of a cluster that a federated credential names. It rejects requests with Entra's error codes.
 */
export async function startEntra(options: EntraOptions) {
  const { tenantId, authority, tokenSeconds = 3600 } = options
  const { privateKey, publicKey } = signingKeys()
  const jwks = { keys: [{ ...(await exportJWK(publicKey)), kid: 'entra-1', use: 'sig', alg: 'RS256' }] }
  const issuer = `${authority}/${tenantId}/v2.0`

  const discovery = {
    issuer,
    authorization_endpoint: `${authority}/${tenantId}/oauth2/v2.0/authorize`,
    token_endpoint: `${authority}/${tenantId}/oauth2/v2.0/token`,
    jwks_uri: `${authority}/${tenantId}/discovery/v2.0/keys`,
    token_endpoint_auth_methods_supported: ['client_secret_post', 'private_key_jwt'],
    response_types_supported: ['code'],
    subject_types_supported: ['pairwise'],
    id_token_signing_alg_values_supported: ['RS256'],
  }

  async function issueToken({ body }: FakeRequest): Promise<FakeAnswer> {
    const form = new URLSearchParams(body)
    const field = (name: string) => form.get(name) ?? ''
    const clientId = field('client_id')
    const [scope = ''] = field('scope').split(' ')
    if (field('grant_type') !== 'client_credentials') return refuse(70003, 'unsupported_grant_type')
    if (field('client_assertion_type') !== JWT_BEARER) return refuse(7000216, 'invalid_client')
    if (!scope.endsWith('/.default')) return refuse(1002012, 'invalid_scope')
    const refusal = await judgeAssertion(field('client_assertion'), clientId, options)
    if (refusal !== undefined) return refuse(refusal, 'invalid_client')
    const audience = scope.replace(/\/\.default$/, '')
    const token = await sign(clientId, audience)
    await options.onToken?.(token, audience)
    const lifetime = { expires_in: tokenSeconds, ext_expires_in: tokenSeconds }
    return { status: 200, body: { token_type: 'Bearer', ...lifetime, access_token: token } }
  }

  const sign = (clientId: string, audience: string): Promise<string> =>
    new SignJWT({ tid: tenantId, appid: clientId, oid: clientId, ver: '1.0' })
      .setProtectedHeader({ alg: 'RS256', typ: 'JWT', kid: 'entra-1' })
      .setIssuer(issuer)
      .setAudience(audience)
      .setSubject(clientId)
      .setJti(randomUUID())
      .setIssuedAt()
      .setExpirationTime(`${tokenSeconds}s`)
      .sign(privateKey)

  const fake = await startHttpsFake({
    ...options,
    respond: async (request) => {
      const { pathname } = request.url
      if (pathname === `/${tenantId}/v2.0/.well-known/openid-configuration`)
        return { status: 200, body: discovery }
      if (pathname === `/${tenantId}/discovery/v2.0/keys`) return { status: 200, body: jwks }
      if (request.method === 'POST' && pathname === `/${tenantId}/oauth2/v2.0/token`)
        return issueToken(request)
      if (pathname.endsWith('/oauth2/v2.0/token')) return refuse(90002, 'invalid_request')
      return { status: 404 }
    },
  })
  return {
    ...fake,
    issuer,
    jwks,
    /** Requests for tokens, without those for discovery. */
    tokenRequests: () => fake.requests.filter(({ url }) => url.pathname.endsWith('/token')),
  }
}

/** Entra's error code for an invalid assertion; undefined if the assertion is valid. */
async function judgeAssertion(
  assertion: string,
  clientId: string,
  { federated, issuerKeys }: EntraOptions,
): Promise<number | undefined> {
  const credential = credentialFor(
    assertion,
    federated.filter((each) => each.clientId === clientId),
  )
  if (typeof credential === 'number') return credential
  const { audience = EXCHANGE_AUDIENCE, issuer } = credential
  const keys = createLocalJWKSet(await issuerKeys(issuer))
  const algorithms = ['RS256', 'ES256']
  const requiredClaims = ['exp', 'iat', 'sub']
  const verified = jwtVerify(assertion, keys, { issuer, audience, algorithms, requiredClaims })
  return verified.then(() => undefined, codeOf)
}

/** Returns the federated credential that matches the assertion, or Entra's error code if none matches. */
function credentialFor(
  assertion: string,
  ours: readonly FederatedCredential[],
): FederatedCredential | number {
  const claims = claimsOf(assertion)
  if (ours.length === 0) return 700016
  if (!claims) return 50027
  const ofIssuer = ours.filter(({ issuer }) => issuer === claims.iss)
  if (ofIssuer.length === 0) return 700211
  return ofIssuer.find(({ subject }) => subject === claims.sub) ?? 700213
}

function codeOf(error: unknown): number {
  if (error instanceof errors.JWTExpired) return 700024
  if (error instanceof errors.JWTClaimValidationFailed && error.claim === 'aud') return 700212
  if (error instanceof errors.JOSEError) return 5000224
  throw error
}

function claimsOf(token: string): { iss?: string; sub?: string } | undefined {
  try {
    return JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString('utf8'))
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}

function refuse(code: number, error: string): FakeAnswer {
  const ids = { trace_id: randomUUID(), correlation_id: randomUUID(), timestamp: new Date().toISOString() }
  const description = `AADSTS${code}: refused by the test. Trace ID: ${ids.trace_id}`
  const status = error === 'invalid_client' ? 401 : 400
  return { status, body: { error, error_description: description, error_codes: [code], ...ids } }
}
