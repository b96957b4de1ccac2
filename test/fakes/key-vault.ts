import { randomBytes } from 'node:crypto'
import { createLocalJWKSet, errors, type JSONWebKeySet, jwtVerify } from 'jose'
import * as z from 'zod'
import { type FakeAnswer, type FakeRequest, type HttpsFakeOptions, startHttpsFake } from './https-fake.ts'

/** Data actions of roles: the last part of their names in Azure. */
export const DATA_ACTIONS = [
  'getSecret',
  'listSecrets',
  'setSecret',
  'deleteSecret',
  'recoverSecret',
] as const
type DataAction = (typeof DATA_ACTIONS)[number]

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

interface Deleted {
  readonly versions: Version[]
  /** In seconds. */
  readonly at: number
}

const RESOURCE = 'https://vault.azure.net'

/** The data plane of a Key Vault with role-based access: the challenge, versions, listing, soft deletion, and its refusals. */
export async function startKeyVault(options: KeyVaultOptions) {
  const { url, tenantId, authority, roles } = options
  const secrets = new Map<string, Version[]>()
  /** Secrets that the vault keeps after their deletion. Their names cannot be used again until then. */
  const deleted = new Map<string, Deleted>()
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

  function answerTo(caller: string, { method, url: asked, body }: FakeRequest): FakeAnswer {
    const found = asked.searchParams.has('api-version') ? operationOf(method, asked.pathname) : undefined
    if (!found) return problem(400, 'BadParameter', { message: `${method} ${asked.pathname}` })
    const { action, name, version } = found
    if (!roles[caller]?.includes(action)) return forbidden(caller, action)
    return OPERATIONS[found.operation]({ secrets, deleted, url }, { name, version, body })
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
    /** All versions of a secret, the oldest first. */
    versionsOf: (name: string): readonly Version[] => secrets.get(name) ?? [],
    names: () => [...secrets.keys()],
    deletedNames: () => [...deleted.keys()],
    purgeDateOf: (name: string) => new Date(((deleted.get(name)?.at ?? 0) + RETENTION_SECONDS) * 1000),
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

interface Operation {
  readonly operation: 'list' | 'get' | 'set' | 'delete' | 'recover' | 'getDeleted'
  readonly action: DataAction
  readonly name: string
  readonly version: string | undefined
}

/** `/secrets[/{name}[/versions|/{version}]]` and `/deletedsecrets/{name}[/recover]`. The SDK ends a path with "/". */
function operationOf(method: string, path: string): Operation | undefined {
  const [, collection, name = '', version = ''] = path.split('/')
  const isList = name === '' || version === 'versions'
  const key = `${method} ${collection}${version === 'recover' ? '/recover' : ''}`
  const known: Readonly<Record<string, readonly [Operation['operation'], DataAction]>> = {
    'GET secrets': isList ? ['list', 'listSecrets'] : ['get', 'getSecret'],
    'PUT secrets': ['set', 'setSecret'],
    'DELETE secrets': ['delete', 'deleteSecret'],
    'GET deletedsecrets': ['getDeleted', 'getSecret'],
    'POST deletedsecrets/recover': ['recover', 'recoverSecret'],
  }
  const found = known[key]
  return found && { operation: found[0], action: found[1], name, version: version || undefined }
}

type Wanted = { readonly name: string; readonly version: string | undefined; readonly body: string }

const OPERATIONS: Record<Operation['operation'], (kept: Kept, wanted: Wanted) => FakeAnswer> = {
  list: ({ secrets, url }) => listOf(secrets, url),
  get: ({ secrets, url }, { name, version }) => secretOf(secrets.get(name) ?? [], { url, name, version }),
  set: (kept, { name, body }) => setIn(kept, name, body),
  delete: (kept, { name }) => deleteIn(kept, name),
  recover: (kept, { name }) => recoverIn(kept, name),
  getDeleted: ({ deleted, url }, { name }) => {
    const found = deleted.get(name)
    return found ? { status: 200, body: deletedOf(found, url, name) } : notFound(name)
  },
}

interface Kept {
  readonly secrets: Map<string, Version[]>
  readonly deleted: Map<string, Deleted>
  readonly url: string
}

const Body = z.object({
  value: z.string(),
  attributes: z.object({ enabled: z.boolean().optional(), exp: z.int().optional() }).optional(),
})

function setIn({ secrets, deleted, url }: Kept, name: string, text: string): FakeAnswer {
  if (!/^[0-9a-zA-Z-]{1,127}$/.test(name)) return problem(400, 'BadParameter', { message: name })
  if (deleted.has(name)) {
    const message = `Secret ${name} is currently in a deleted but recoverable state, and its name cannot be reused`
    return problem(409, 'Conflict', { message, inner: 'ObjectIsDeletedButRecoverable' })
  }
  const { value, attributes: { enabled = true, exp } = {} } = Body.parse(JSON.parse(text))
  const version = { id: randomBytes(16).toString('hex'), value, enabled, ...(exp !== undefined && { exp }) }
  secrets.set(name, [...(secrets.get(name) ?? []), version])
  return { status: 200, body: bundleOf(version, { url, name }) }
}

function deleteIn({ secrets, deleted, url }: Kept, name: string): FakeAnswer {
  const versions = secrets.get(name)
  if (!versions) return notFound(name)
  secrets.delete(name)
  const one = { versions, at: Math.floor(Date.now() / 1000) }
  deleted.set(name, one)
  return { status: 200, body: deletedOf(one, url, name) }
}

function recoverIn({ secrets, deleted, url }: Kept, name: string): FakeAnswer {
  const found = deleted.get(name)
  if (!found) return notFound(name)
  deleted.delete(name)
  secrets.set(name, found.versions)
  return { status: 200, body: { id: `${url}/secrets/${name}`, attributes: { enabled: true } } }
}

const RETENTION_SECONDS = 90 * 24 * 3600

function deletedOf({ at }: Deleted, url: string, name: string) {
  return {
    recoveryId: `${url}/deletedsecrets/${name}`,
    deletedDate: at,
    scheduledPurgeDate: at + RETENTION_SECONDS,
    id: `${url}/secrets/${name}`,
    attributes: { enabled: true, recoveryLevel: 'Recoverable' },
  }
}

type Asked = { readonly url: string; readonly name: string; readonly version: string | undefined }

function secretOf(versions: readonly Version[], { url, name, version }: Asked): FakeAnswer {
  const found = version ? versions.find(({ id }) => id === version) : versions.at(-1)
  if (!found) return notFound(name)
  if (!found.enabled) {
    const text = `Operation get is not allowed on a disabled secret: ${name}`
    return problem(403, 'Forbidden', { message: text, inner: 'SecretDisabled' })
  }
  return { status: 200, body: bundleOf(found, { url, name }) }
}

function bundleOf({ id, value, exp, enabled }: Version, { url, name }: Omit<Asked, 'version'>) {
  const attributes = { enabled, recoveryLevel: 'Recoverable', ...(exp !== undefined && { exp }) }
  return { value, id: `${url}/secrets/${name}/${id}`, attributes }
}

const notFound = (name: string): FakeAnswer =>
  problem(404, 'SecretNotFound', {
    message: `A secret with (name/id) ${name} was not found in this key vault.`,
  })

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
