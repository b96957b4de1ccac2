import { expect, it } from 'vitest'
import { REFRESH_MS } from '../../runtime/azure/held-credential.ts'
import { startAzure } from './azure-rig.ts'
import { NAME, openCredential } from './open-credential.ts'

it("reads the configured secret with the pod's own identity", async () => {
  const azure = await startAzure()
  azure.vault.setSecret(NAME, 'gho_the-token-of-ada')

  const { token, values } = openCredential(azure)

  expect(await token()).toBe('gho_the-token-of-ada')
  expect(values).toEqual(['gho_the-token-of-ada'])
  expect(azure.entra.tokenRequests()).toHaveLength(1)
  expect(new Set(azure.vault.requests.map(({ url }) => url.pathname))).toEqual(new Set([`/secrets/${NAME}/`]))
  expect(new Set(azure.proxy.asked)).toEqual(
    new Set(['aw-users.vault.azure.net', 'login.microsoftonline.com']),
  )
})

it('sees a rotation while it runs, and announces each value before a caller gets it', async () => {
  const azure = await startAzure()
  const clock = { ms: Date.now() }
  azure.vault.setSecret(NAME, 'gho_first')
  const { opened, values } = openCredential(azure, { now: () => clock.ms })
  const credential = await opened
  azure.vault.setSecret(NAME, 'gho_second')

  const before = await credential.fetch()
  clock.ms += REFRESH_MS
  const after = await credential.fetch()

  expect([before, after]).toEqual(['gho_first', 'gho_second'])
  expect(values).toEqual(['gho_first', 'gho_second'])
})

it.each([
  ['does not exist', 'credential_absent', () => undefined],
  ['is empty', 'credential_absent', ({ vault }) => vault.setSecret(NAME, '')],
  ['ends with a line break', 'credential_absent', ({ vault }) => vault.setSecret(NAME, 'gho_x\n')],
  ['holds another header', 'credential_absent', ({ vault }) => vault.setSecret(NAME, 'x\r\nhost: evil')],
  ['has expired', 'credential_absent', ({ vault }) => vault.setSecret(NAME, 'gho_x', { exp: 1_000_000_000 })],
  ['is disabled', 'credential_forbidden', ({ vault }) => vault.setSecret(NAME, 'gho_x', { enabled: false })],
] satisfies [string, string, (azure: Awaited<ReturnType<typeof startAzure>>) => void][])(
  'reports a secret that %s as %s',
  async (_what, code, prepare) => {
    const azure = await startAzure()
    prepare(azure)

    const { opened } = openCredential(azure)

    await expect(opened).rejects.toMatchObject({ code })
  },
)

it('distinguishes an identity without a role from a missing secret', async () => {
  const azure = await startAzure()
  azure.vault.setSecret(NAME, 'gho_x')
  azure.vault.roles[azure.settings.identity.clientId] = []

  const { opened } = openCredential(azure)

  await expect(opened).rejects.toMatchObject({
    code: 'credential_forbidden',
    message: 'the vault responded with 403 (ForbiddenByRbac)',
  })
})

it('remembers no failure', async () => {
  const azure = await startAzure()
  await expect(openCredential(azure).opened).rejects.toMatchObject({ code: 'credential_absent' })

  azure.vault.setSecret(NAME, 'gho_late')

  expect(await openCredential(azure).token()).toBe('gho_late')
})

it('gives an agent of kind foundry a token for its one resource, renewed before it expires', async () => {
  const azure = await startAzure({ tokenSeconds: 600 })
  const clock = { ms: Date.now() }
  const settings = { ...azure.settings, foundryUrl: 'https://res.openai.azure.com' }
  const model = { name: 'gpt', baseUrl: 'https://res.openai.azure.com/openai/v1/' }
  const { opened, values } = openCredential(
    { settings },
    { credential: { kind: 'none' }, agent: { kind: 'foundry', model }, now: () => clock.ms },
  )
  const credential = await opened

  const first = await credential.fetch()
  clock.ms += 301_000
  const second = await credential.fetch()

  const claims = JSON.parse(Buffer.from(first?.split('.')[1] ?? '', 'base64url').toString('utf8'))
  expect(claims).toMatchObject({ aud: 'https://cognitiveservices.azure.com' })
  expect(second).not.toBe(first)
  expect(values).toEqual([first, second])
})

it("sends no user's token to a model of kind foundry", async () => {
  const azure = await startAzure()
  azure.vault.setSecret(NAME, 'gho_x')
  const settings = { ...azure.settings, foundryUrl: 'https://res.openai.azure.com' }
  const model = { name: 'gpt', baseUrl: 'https://res.openai.azure.com/openai/v1/' }

  const { opened } = openCredential({ settings }, { agent: { kind: 'foundry', model } })

  await expect(opened).rejects.toMatchObject({ code: 'configure_failed' })
  expect(azure.vault.requests).toEqual([])
})

it.each([
  ['another resource', 'https://other.openai.azure.com/openai/v1/'],
  ['a name that ends like it', 'https://evil-res.openai.azure.com/'],
  ['user information that looks like it', 'https://res.openai.azure.com@evil.example/'],
  ['another port', 'https://res.openai.azure.com:8443/'],
  ['no TLS', 'http://res.openai.azure.com/'],
])('gives no token for a model at %s', async (_what, baseUrl) => {
  const azure = await startAzure()
  const settings = { ...azure.settings, foundryUrl: 'https://res.openai.azure.com' }

  const { opened } = openCredential(
    { settings },
    { credential: { kind: 'none' }, agent: { kind: 'foundry', model: { name: 'gpt', baseUrl } } },
  )

  await expect(opened).rejects.toMatchObject({ code: 'credential_forbidden' })
  expect(azure.entra.requests).toEqual([])
})

it('says which setting is missing instead of going on without a credential', async () => {
  const { settings } = await startAzure()
  const { vaultUrl: _none, ...bare } = settings

  const { opened } = openCredential({ settings: bare })

  await expect(opened).rejects.toMatchObject({ code: 'credential_unavailable' })
})
