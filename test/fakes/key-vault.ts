import { randomBytes } from 'node:crypto'
import { createLocalJWKSet, errors, type JSONWebKeySet, jwtVerify } from 'jose'
import { type FakeAnswer, type FakeRequest, type HttpsFakeOptions, startHttpsFake } from './https-fake.ts'

type DataAction = 'getSecret' | 'listSecrets'

export interface KeyVaultOptions extends Pick<HttpsFakeOptions, 'tls' | 'listen'> {
  /** Where clients reach it, such as `https://users.vault.azure.net`. */
  readonly url: string
  readonly tenantId: string
  readonly authority: string
  /** Issuer and keys of the accepted tokens. */
  readonly tokens: { readonly issuer: string; readonly keys: () => Promise<JSONWebKeySet> }
  /** Permissions of each Azure identity. */
  readonly roles: Record<string, readonly DataAction[]>
}

type Version = {
  readonly id: string
  readonly value: string
  readonly exp?: number
  readonly enabled: boolean
}

const RESOURCE = 'https://vault.azure.net'

/** The data plane of a Key Vault with role-based access: the challenge, versions, listing, and its refusals. */
export async function startKeyVault(options: KeyVaultOptions) {
  const { url, tenantId, authority, roles } = options
  const secrets = new Map<string, Version[]>()
  const state = {
    /** The challenge of a response to a request without a token. A hostile vault names a different resource. */
    challenge: `Bearer authorization="${authority}/${tenantId}", resource="${RESOURCE}"`,
  }

  async function respond(request: FakeRequest): Promise<FakeAnswer> {
    const token = /^Bearer (.+)$/.exec(request.headers.authorization ?? '')?.[1] ?? ''
    const caller = await callerOf(token, options)
    if (caller !== undefined) return answerTo(caller, request)
    const headers = { 'www-authenticate': state.challenge }
    return { ...problem(401, 'Unauthorized', { message: 'a token is needed' }), headers }
  }

  function answerTo(caller: string, { method, url: asked }: FakeRequest): FakeAnswer {
    const { name, version, isList } = parsePath(asked.pathname)
    const isKnown = method === 'GET' && name !== undefined && asked.searchParams.has('api-version')
    if (!isKnown) return problem(400, 'BadParameter', { message: `${method} ${asked.pathname}` })
    const action: DataAction = isList ? 'listSecrets' : 'getSecret'
    if (!roles[caller]?.includes(action)) return forbidden(caller, action)
    return isList ? listOf(secrets, url) : secretOf(secrets.get(name) ?? [], { url, name, version })
  }

  const fake = await startHttpsFake({ ...options, respond })
  return {
    ...fake,
    state,
    roles,
    /** Adds a version, which is the newest from then on. */
    setSecret(name: string, value: string, more: { exp?: number; enabled?: boolean } = {}): void {
      const version = { id: randomBytes(16).toString('hex'), value, enabled: true, ...more }
      secrets.set(name, [...(secrets.get(name) ?? []), version])
    },
    deleteSecret: (name: string) => secrets.delete(name),
  }
}

/** The identity of a token, or undefined for a token of another audience. */
async function callerOf(
  token: string,
  { tokens, tenantId }: Pick<KeyVaultOptions, 'tokens' | 'tenantId'>,
): Promise<string | undefined> {
  try {
    const { payload } = await jwtVerify(token, createLocalJWKSet(await tokens.keys()), {
      issuer: tokens.issuer,
      audience: RESOURCE,
      algorithms: ['RS256'],
    })
    return payload['tid'] === tenantId ? String(payload['appid']) : undefined
  } catch (error) {
    if (error instanceof errors.JOSEError) return undefined
    throw error
  }
}

/** `/secrets`, `/secrets/{name}`, `/secrets/{name}/versions` and `/secrets/{name}/{version}`. */
function parsePath(path: string): { name: string | undefined; version: string | undefined; isList: boolean } {
  const [, collection, name = '', version] = path.split('/')
  const isSecrets = collection === 'secrets'
  return {
    name: isSecrets ? name : undefined,
    version,
    isList: name === '' || version === 'versions',
  }
}

type Asked = { readonly url: string; readonly name: string; readonly version: string | undefined }

function secretOf(versions: readonly Version[], { url, name, version }: Asked): FakeAnswer {
  const found = version ? versions.find(({ id }) => id === version) : versions.at(-1)
  if (!found) {
    const text = `A secret with (name/id) ${name} was not found in this key vault.`
    return problem(404, 'SecretNotFound', { message: text })
  }
  if (!found.enabled) {
    const text = `Operation get is not allowed on a disabled secret: ${name}`
    return problem(403, 'Forbidden', { message: text, inner: 'SecretDisabled' })
  }
  const { id, value, exp, enabled } = found
  const attributes = { enabled, recoveryLevel: 'Recoverable', ...(exp !== undefined && { exp }) }
  return { status: 200, body: { value, id: `${url}/secrets/${name}/${id}`, attributes } }
}

function listOf(secrets: ReadonlyMap<string, unknown>, url: string): FakeAnswer {
  const value = [...secrets.keys()].map((name) => ({ id: `${url}/secrets/${name}`, attributes: {} }))
  return { status: 200, body: { value, nextLink: null } }
}

const forbidden = (caller: string, action: string): FakeAnswer => {
  const message = `Caller is not authorized: ${caller}, ${action}`
  return problem(403, 'Forbidden', { message, inner: 'ForbiddenByRbac' })
}

type Words = { readonly message: string; readonly inner?: string }

function problem(status: number, code: string, { message, inner }: Words): FakeAnswer {
  return { status, body: { error: { code, message, ...(inner && { innererror: { code: inner } }) } } }
}
