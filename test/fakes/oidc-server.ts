import { generateKeyPair, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { promisify } from 'node:util'
import { exportJWK, importJWK, type JWK, type JWTHeaderParameters, type JWTPayload, SignJWT } from 'jose'
import { Provider } from 'oidc-provider'

export const OIDC_AUDIENCE = 'https://agentweaver.example.com/api'

export type Person = Readonly<Record<string, unknown>>

/** The public client of the command line. */
export const CLI_CLIENT = 'agentweaver-cli'
/** Names the person who uses the browser, in place of a login page. */
export const PERSON_COOKIE = 'person'

type Options = {
  /** By client id, and by person who signs in with a browser: what the access tokens claim. */
  readonly people: Readonly<Record<string, Person>>
  readonly tokenSeconds?: number
}

type TokenOf = { readonly clientId: string; readonly accountId?: string }
type GrantContext = {
  readonly oidc: {
    readonly client: { readonly clientId: string }
    readonly session: { readonly accountId: string }
  }
}

const DEVICE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code'
const SECRET = 'a-secret-of-a-test'

async function newKey(): Promise<JWK & { kid: string }> {
  const { privateKey } = await promisify(generateKeyPair)('rsa', { modulusLength: 2048 })
  return { ...(await exportJWK(privateKey)), kid: randomBytes(8).toString('hex'), use: 'sig', alg: 'RS256' }
}

/** A certified OpenID Connect server (`oidc-provider`) on this machine. Its access tokens are signed JWTs (RFC 9068). */
export async function startOidcServer({ people, tokenSeconds = 600 }: Options) {
  let handle: ReturnType<InstanceType<typeof Provider>['callback']> = () => undefined
  const paths: string[] = []
  const server = createServer((request, response) => {
    paths.push(request.url ?? '')
    handle(request, response)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  let key = await newKey()

  const serve = (keys: readonly JWK[]) => {
    const provider = new Provider(issuer, {
      jwks: { keys },
      ttl: { ClientCredentials: tokenSeconds, AccessToken: tokenSeconds },
      cookies: { keys: [randomBytes(16).toString('hex')] },
      clients: [
        ...Object.keys(people).map((id) => ({
          client_id: id,
          client_secret: SECRET,
          grant_types: ['client_credentials'],
          redirect_uris: [],
          response_types: [],
        })),
        {
          client_id: CLI_CLIENT,
          application_type: 'native',
          token_endpoint_auth_method: 'none',
          grant_types: ['authorization_code', 'refresh_token', DEVICE_GRANT],
          redirect_uris: ['http://127.0.0.1/callback'],
          response_types: ['code'],
        },
      ],
      scopes: ['openid', 'offline_access'],
      // As Entra ID does: without asking for consent each time.
      issueRefreshToken: async (_context: unknown, client: { grantTypeAllowed(type: string): boolean }) =>
        client.grantTypeAllowed('refresh_token'),
      pkce: { required: () => true },
      findAccount: (_context: unknown, id: string) => ({ accountId: id, claims: () => ({ sub: id }) }),
      interactions: { url: (_context: unknown, { uid }: { uid: string }) => `/interaction/${uid}` },
      // People agree to everything.
      loadExistingGrant: async ({ oidc }: GrantContext) => {
        const ids = { clientId: oidc.client.clientId, accountId: oidc.session.accountId }
        const grant = new provider.Grant(ids)
        grant.addOIDCScope('openid offline_access')
        grant.addResourceScope(OIDC_AUDIENCE, 'api')
        await grant.save()
        return grant
      },
      extraTokenClaims: (_context: unknown, { clientId, accountId }: TokenOf) =>
        people[accountId ?? clientId],
      features: {
        devInteractions: { enabled: false },
        clientCredentials: { enabled: true },
        deviceFlow: { enabled: true },
        revocation: { enabled: true },
        resourceIndicators: {
          enabled: true,
          getResourceServerInfo: (_context: unknown, resource: string) => ({
            scope: 'api',
            audience: resource,
            accessTokenFormat: 'jwt',
            accessTokenTTL: tokenSeconds,
            jwt: { sign: { alg: 'RS256' } },
          }),
        },
      },
    })
    const callback = provider.callback()
    handle = (request, response) => {
      if (!request.url?.startsWith('/interaction/')) return callback(request, response)
      const accountId = new RegExp(`${PERSON_COOKIE}=(\\w+)`).exec(request.headers.cookie ?? '')?.[1] ?? ''
      void provider.interactionFinished(request, response, { login: { accountId }, consent: {} })
    }
  }
  serve([key])

  return {
    issuer,
    /** Paths of all requests. */
    paths,
    /** Gets a token from the server, as a client does. */
    async token(client: string, resource = OIDC_AUDIENCE): Promise<string> {
      const answer = await fetch(`${issuer}/token`, {
        method: 'POST',
        headers: { authorization: `Basic ${btoa(`${client}:${SECRET}`)}` },
        body: new URLSearchParams({ grant_type: 'client_credentials', resource, scope: 'api' }),
      })
      const body = (await answer.json()) as { access_token?: string }
      if (body.access_token === undefined) throw new Error(`no token: ${JSON.stringify(body)}`)
      return body.access_token
    },
    /** Uses or revokes a refresh token, as a client does. Returns the status and the error code. */
    async withRefreshToken(token: string, what: 'use' | 'revoke') {
      const form = { client_id: CLI_CLIENT, token, refresh_token: token, grant_type: 'refresh_token' }
      const path = what === 'use' ? '/token' : '/token/revocation'
      const answer = await fetch(issuer + path, { method: 'POST', body: new URLSearchParams(form) })
      const text = await answer.text()
      const error = text === '' ? undefined : (JSON.parse(text) as { error?: string }).error
      return { status: answer.status, error }
    },
    /** A token that the server would not make, signed with its key. */
    async sign(payload: JWTPayload, header: Partial<JWTHeaderParameters> = {}): Promise<string> {
      return new SignJWT(payload)
        .setProtectedHeader({ alg: 'RS256', typ: 'at+jwt', kid: key.kid, ...header })
        .sign(await importJWK(key, 'RS256'), { crit: { 'x-unknown': true } })
    },
    publicKey: (): JWK => ({ kty: 'RSA', n: key.n ?? '', e: key.e ?? '', kid: key.kid }),
    /** Signs with a new key from now on. The old one stays published, unless it is withdrawn. */
    async rotate({ isWithdrawn = false } = {}): Promise<void> {
      const old = key
      key = await newKey()
      serve(isWithdrawn ? [key] : [key, old])
    },
    async close(): Promise<void> {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

export type OidcServer = Awaited<ReturnType<typeof startOidcServer>>
