import { createHmac, createPublicKey } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { createSignIn, type SignInSettings } from '../../runtime/api/people/sign-in.ts'
import { createClient } from '../../runtime/client/client.ts'
import { runCli } from '../cli/run-cli.ts'
import { OIDC_AUDIENCE, type OidcServer, startOidcServer } from '../fakes/oidc-server.ts'
import { until } from '../helpers/until.ts'
import { bearer, RUN, startApp } from './harness.ts'
import { makeStateDir, startService } from './service-process.ts'

const TENANT = '11111111-aaaa'
const people = {
  ada: { tid: TENANT, oid: 'ada', roles: ['sandbox-users'] },
  bob: { tid: TENANT, oid: 'bob', roles: ['sandbox-users', 'something else'] },
  ann: { tid: TENANT, oid: 'ann', roles: ['sandbox-users', 'sandbox-approvers'] },
  rita: { tid: TENANT, oid: 'rita', roles: ['sandbox-auditors'] },
  root: { tid: TENANT, oid: 'root', roles: 'sandbox-admins' },
  guest: { tid: TENANT, oid: 'guest', roles: ['operator'] },
  both: { tid: TENANT, oid: 'both', roles: ['sandbox-users', 'sandbox-auditors'] },
  many: { tid: TENANT, oid: 'many', _claim_names: { roles: 'src1' }, _claim_sources: { src1: {} } },
  nobody: { tid: TENANT, roles: ['sandbox-admins'] },
  slash: { tid: `${TENANT}/ada`, oid: 'x', roles: ['sandbox-users'] },
}

let server: OidcServer
beforeAll(async () => {
  server = await startOidcServer({ people })
})
afterAll(() => server.close())

const settingsOf = ({ issuer }: OidcServer): SignInSettings => ({
  issuer,
  audience: OIDC_AUDIENCE,
  ownerClaims: ['tid', 'oid'],
  rolesClaim: 'roles',
  roles: new Map([
    ['sandbox-users', 'user'],
    ['sandbox-approvers', 'approver'],
    ['sandbox-auditors', 'auditor'],
    ['sandbox-admins', 'operator'],
  ]),
})

/** The API with sign-in at the server. `at` is its clock. */
function startWithSignIn({ from = server, now = () => new Date(), cooldownMs = 0, ...change }: Change = {}) {
  const signIn = createSignIn({ ...settingsOf(from), ...change }, { now, cooldownMs })
  const harness = startApp({ signIn, now })
  const ask = async (token: string, url = '/api/runs') => {
    const answer = await harness.app.inject({ url, headers: bearer(token) })
    return { status: answer.statusCode, body: answer.json(), headers: answer.headers }
  }
  const start = async (token: string) => {
    const request = { method: 'POST', url: '/api/runs', headers: bearer(token), body: RUN } as const
    return (await harness.app.inject(request)).json()
  }
  return { ...harness, ask, start }
}
type Change = Partial<SignInSettings> & { from?: OidcServer; now?: () => Date; cooldownMs?: number }

const claims = (change: Record<string, unknown> = {}) => {
  const seconds = Math.floor(Date.now() / 1000)
  const { issuer: iss } = server
  const mine = { iss, aud: OIDC_AUDIENCE, sub: 'ada', ...people.ada, scope: 'api' }
  return { ...mine, iat: seconds, exp: seconds + 600, ...change }
}

describe('an access token', () => {
  test('of each person gives the owner and the role', async () => {
    const { ask, start } = startWithSignIn()

    const [adas, bobs] = [await server.token('ada'), await server.token('bob')]
    const run = await start(adas)

    expect(run.owner).toBe(`${server.issuer}#${TENANT}/ada`)
    expect((await ask(adas, `/api/runs/${run.id}`)).status).toBe(200)
    expect((await ask(bobs, `/api/runs/${run.id}`)).status).toBe(404)
    expect((await ask(await server.token('root'), `/api/runs/${run.id}`)).status).toBe(200)
    expect((await ask(await server.token('root'), '/api/audit')).status).toBe(200)
    expect((await ask(bobs, '/api/audit')).status).toBe(403)
  })

  test('of an approver has more rights than the one of a user', async () => {
    const { app } = startWithSignIn()
    const create = async (person: string) => {
      const headers = bearer(await server.token(person))
      const body = { name: 'x', role: 'approver' }
      return (await app.inject({ method: 'POST', url: '/api/keys', headers, body })).statusCode
    }
    expect([await create('ann'), await create('ada'), await create('rita')]).toEqual([201, 403, 403])
  })

  test('works together with API keys', async () => {
    const { ask, keys } = startWithSignIn()
    expect((await ask(keys.ada)).status).toBe(200)
    expect((await ask(await server.token('ada'))).status).toBe(200)
  })

  test('is not accepted by a service without an issuer', async () => {
    const { app } = startApp()
    const answer = await app.inject({ url: '/api/runs', headers: bearer(await server.token('ada')) })
    expect(answer.statusCode).toBe(401)
  })

  test.for([
    ['guest', 'no value of the claim roles gives you a role'],
    ['both', 'You have the role auditor and another one'],
    ['many', 'too many groups'],
  ] as const)('of %s is refused with the reason', async ([person, reason]) => {
    const { status, body } = await startWithSignIn().ask(await server.token(person))
    expect([status, body.code]).toEqual([403, 'forbidden'])
    expect(body.detail).toContain(reason)
  })

  test('without a claim that identifies its person is refused', async () => {
    const { status, body } = await startWithSignIn().ask(await server.token('nobody'))
    expect([status, body.detail]).toEqual([401, expect.stringContaining('no claim oid')])
  })

  test('cannot name the owner of another person with a separator in a claim', async () => {
    const { start } = startWithSignIn()
    const { owner } = await start(await server.token('slash'))
    expect(owner).toBe(`${server.issuer}#${TENANT}%2Fada/x`)
  })

  test('with groups that were left out is refused', async () => {
    const { ask } = startWithSignIn({ rolesClaim: 'groups' })
    const { status, body } = await ask(await server.sign(claims({ hasgroups: true })))
    expect([status, body.detail]).toEqual([403, expect.stringContaining('too many groups')])
  })
})

describe('a token that is not valid', () => {
  /** What makes it invalid, the token, and the words of the refusal. */
  const ATTACKS: readonly [string, () => Promise<string> | string, string][] = [
    ['for another audience', () => server.token('ada', 'https://other.example.com'), 'another audience'],
    ['from another issuer', () => server.sign(claims({ iss: 'https://evil.example.com' })), 'another issuer'],
    [
      'from an issuer that differs in a slash',
      () => server.sign(claims({ iss: `${server.issuer}/` })),
      'another issuer',
    ],
    ['expired', () => server.sign(claims({ exp: Math.floor(Date.now() / 1000) - 60 })), 'has expired'],
    [
      'not valid yet',
      () => server.sign(claims({ nbf: Math.floor(Date.now() / 1000) + 120 })),
      'not valid yet',
    ],
    ['without an expiry', () => server.sign(claims({ exp: undefined })), 'no valid claim exp'],
    ['without an audience', () => server.sign(claims({ aud: undefined })), 'audience'],
    ['an ID token', () => server.sign(claims({ scope: undefined }), { typ: 'JWT' }), 'not an access token'],
    [
      'an ID token with a scope',
      () => server.sign(claims({ nonce: 'n' }), { typ: 'JWT' }),
      'not an access token',
    ],
    ['a logout token', () => server.sign(claims(), { typ: 'logout+jwt' }), 'not an access token'],
    ['with alg none', unsigned, 'asymmetric algorithm'],
    ['with alg HS256 and the public key as the secret', () => hmac('pem'), 'asymmetric algorithm'],
    ['with alg HS256 and the modulus as the secret', () => hmac('n'), 'asymmetric algorithm'],
    [
      'with a critical header',
      () => server.sign(claims(), { crit: ['x-unknown'], 'x-unknown': 1 }),
      'signature',
    ],
    ['with its own key in the header', ownKey, 'signature'],
    ['with a key id that does not exist', () => server.sign(claims(), { kid: 'absent' }), 'signature'],
    ['changed after it was signed', changed, 'signature'],
    ['with a cut signature', async () => (await server.token('ada')).slice(0, -8), 'signature'],
    ['of two parts', () => 'e30.e30', 'neither an API key nor an access token'],
    ['of five parts', () => 'e30.e30.e30.e30.e30', 'neither an API key nor an access token'],
  ]

  const base64 = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  function unsigned(): string {
    return `${base64({ alg: 'none', typ: 'at+jwt' })}.${base64(claims({ roles: ['sandbox-admins'] }))}.`
  }
  async function hmac(secret: 'pem' | 'n'): Promise<string> {
    const jwk = server.publicKey()
    const pem = createPublicKey({ key: jwk, format: 'jwk' }).export({ type: 'spki', format: 'pem' })
    const text = `${base64({ alg: 'HS256', typ: 'at+jwt', kid: jwk.kid })}.${base64(claims())}`
    const key = secret === 'pem' ? pem : Buffer.from(jwk.n ?? '', 'base64url')
    return `${text}.${createHmac('sha256', key).update(text).digest('base64url')}`
  }
  async function ownKey(): Promise<string> {
    const { privateKey, publicKey } = await generateKeyPair('RS256', { extractable: true })
    const header = { alg: 'RS256', typ: 'at+jwt', kid: server.publicKey().kid ?? '' }
    const jwk = await exportJWK(publicKey)
    return new SignJWT(claims()).setProtectedHeader({ ...header, jwk }).sign(privateKey)
  }
  async function changed(): Promise<string> {
    const [header, , signature] = (await server.token('ada')).split('.')
    return `${header}.${base64(claims({ roles: ['sandbox-admins'] }))}.${signature}`
  }

  test('is compared with one that is made in the same way and accepted (control)', async () => {
    const { ask } = startWithSignIn()
    expect((await ask(await server.sign(claims()))).status).toBe(200)
    expect((await ask(await server.sign(claims(), { typ: 'JWT' }))).status).toBe(200)
    expect((await ask(await server.sign(claims({ aud: ['x', OIDC_AUDIENCE] })))).status).toBe(200)
  })

  test.for(ATTACKS)('is refused: %s', async ([, make, words]) => {
    const { ask, service } = startWithSignIn()
    const { status, body, headers } = await ask(await make())
    expect([status, body.code]).toEqual([401, 'unauthenticated'])
    expect(body.detail).toContain(words)
    expect(headers['www-authenticate']).toContain('error="invalid_token"')
    expect(service.calls).toEqual([])
  })

  test('is accepted within the leeway of 30 seconds, and not later', async () => {
    const token = await server.token('ada')
    const at = (seconds: number) => () => new Date(Date.now() + seconds * 1000)
    expect((await startWithSignIn({ now: at(615) }).ask(token)).status).toBe(200)
    expect((await startWithSignIn({ now: at(635) }).ask(token)).status).toBe(401)
  })

  test('causes no request to the issuer if it names another one or is not signed', async () => {
    const { ask } = startWithSignIn()
    const before = server.paths.length
    await ask(await server.sign(claims({ iss: 'https://evil.example.com' })))
    await ask(unsigned())
    expect(server.paths.length).toBe(before)
  })
})

describe('the keys of the issuer', () => {
  test('are read once for many tokens, and again for a new key', async () => {
    const own = await startOidcServer({ people })
    onTestFinished(() => own.close())
    const { ask } = startWithSignIn({ from: own })
    const old = await own.token('ada')
    const reads = () => own.paths.filter((path) => path.includes('jwks')).length
    for (let count = 0; count < 5; count++) expect((await ask(old)).status).toBe(200)
    expect(reads()).toBe(1)

    await own.rotate()
    const fresh = await own.token('ada')

    expect((await ask(fresh)).status).toBe(200)
    expect((await ask(old)).status).toBe(200)
    expect(reads()).toBe(2)
  })

  test('that were withdrawn are not accepted once the keys are read again', async () => {
    const own = await startOidcServer({ people })
    onTestFinished(() => own.close())
    const { ask } = startWithSignIn({ from: own })
    const old = await own.token('ada')
    expect((await ask(old)).status).toBe(200)

    await own.rotate({ isWithdrawn: true })
    expect((await ask(await own.token('ada'))).status).toBe(200)

    expect((await ask(old)).status).toBe(401)
  })

  test('are not read again and again for tokens with unknown keys', async () => {
    const own = await startOidcServer({ people })
    onTestFinished(() => own.close())
    const { ask } = startWithSignIn({ from: own, cooldownMs: 600_000 })
    expect((await ask(await own.token('ada'))).status).toBe(200)
    const forged = () => own.sign({ ...claims(), iss: own.issuer }, { kid: crypto.randomUUID() })

    for (let count = 0; count < 10; count++) expect((await ask(await forged())).status).toBe(401)

    expect(own.paths.filter((path) => path.includes('jwks')).length).toBe(1)
  })

  test('that cannot be read make tokens fail with 503, and API keys work', async () => {
    const own = await startOidcServer({ people })
    const token = await own.token('ada')
    await own.close()
    const { ask, keys, lines } = startWithSignIn({ from: own })

    const { status, body } = await ask(token)

    expect([status, body.code]).toEqual([503, 'unavailable'])
    expect(lines.join('')).toContain(`The keys of the issuer ${own.issuer} cannot be read`)
    expect((await ask(keys.ada)).status).toBe(200)
  })

  test('are asked for once if many tokens come while the issuer fails', async () => {
    let requests = 0
    const failing = createServer((_request, response) => {
      requests++
      response.writeHead(500).end()
    })
    failing.listen(0, '127.0.0.1')
    await once(failing, 'listening')
    onTestFinished(() => void failing.close())
    const issuer = `http://127.0.0.1:${(failing.address() as AddressInfo).port}`
    const at = new Date()
    const { ask } = startWithSignIn({ issuer, now: () => at })

    for (let count = 0; count < 5; count++)
      expect((await ask(await server.sign(claims({ iss: issuer })))).status).toBe(503)

    expect(requests).toBe(1)
  })

  test('are not taken from a document that names another issuer', async () => {
    const { issuer } = server
    const other = issuer.replace('127.0.0.1', 'localhost')
    const { ask, lines } = startWithSignIn({ issuer: other })
    const { status } = await ask(await server.sign(claims({ iss: other })))
    expect(status).toBe(503)
    expect(lines.join('')).toContain('names another issuer')
  })
})

test.each(['and the store works', 'and the store cannot be read'])(
  'a stream ends when the token of its reader expires, %s',
  async (how) => {
    let now = new Date()
    const { app, start, store } = startWithSignIn({ now: () => now })
    const token = await server.token('ada')
    const { id } = await start(token)
    const url = `/api/runs/${id}/stream`
    const { stream } = await app.inject({ url, headers: bearer(token), payloadAsStream: true })
    const seen = { text: '', hasEnded: false }
    stream()
      .on('data', (chunk) => (seen.text += chunk))
      .on('close', () => (seen.hasEnded = true))
    await until('the stream is open', () => seen.text !== '')
    expect(seen.hasEnded).toBe(false)

    if (how === 'and the store cannot be read')
      store.listUnusableApiKeys = () => Promise.reject(new Error('down'))
    now = new Date(now.getTime() + 640_000)

    await until('the stream has ended', () => seen.hasEnded)
  },
)

test('the service signs people in with the settings of its environment', async () => {
  const { ready } = startService({
    AGENTWEAVER_STATE_DIR: await makeStateDir(),
    AGENTWEAVER_OIDC_ISSUER: server.issuer,
    AGENTWEAVER_OIDC_AUDIENCE: OIDC_AUDIENCE,
    AGENTWEAVER_OIDC_OWNER_CLAIMS: 'tid,oid',
    AGENTWEAVER_OIDC_ROLES: 'sandbox-users=user,sandbox-admins=operator',
  })
  const { url } = await ready
  const ada = createClient({ url, apiKey: await server.token('ada') })
  const root = createClient({ url, apiKey: await server.token('root') })
  const plan = { turns: [[]] }
  const start = { task: 'nothing', workspace: { kind: 'empty' }, agent: { kind: 'scripted', plan } } as const

  const { id, owner } = await ada.startRun({ ...start, requireOutcome: false })
  await until('the run has ended', async () => (await root.readRun(id)).endedAt !== undefined)
  const created = await ada.createApiKey({ name: 'ci' })
  const byKey = createClient({ url, apiKey: created.key })

  expect(owner).toBe(`${server.issuer}#${TENANT}/ada`)
  const shown = await runCli(['whoami'], {
    env: { AGENTWEAVER_URL: url, AGENTWEAVER_API_KEY: await server.token('ada') },
  })
  expect(shown.stdout).toContain(owner)
  expect(await ada.readMe()).toEqual({
    owner,
    role: 'user',
    issuer: server.issuer,
    expiresAt: expect.any(String),
  })
  expect((await byKey.readRun(id)).state).toBe('succeeded')
  expect((await root.readRun(id)).owner).toBe(owner)
  expect(
    (await root.readAudit({ run: 'deployment' })).items.map(({ kind, actor }) => [kind, actor]),
  ).toContainEqual(['key.created', `person:${owner}`])
  await expect(createClient({ url, apiKey: await server.token('rita') }).listRuns()).rejects.toMatchObject({
    status: 403,
  })
})
