import { request } from 'node:https'
import { json } from 'node:stream/consumers'
import { expect, it } from 'vitest'
import { UserSecretName } from '../../contracts/secrets.ts'
import { createTestAuthority } from '../fakes/test-authority.ts'
import { type Azure, aSecretName, startAzure } from './azure-rig.ts'
import { NAME, openCredential } from './open-credential.ts'

const KNOWN = ['aw-users.vault.azure.net', 'login.microsoftonline.com']
const TENANT = '00000000-0000-4000-8000-000000000000'
const LOGIN = 'https://login.microsoftonline.com'

const bearersAt = ({ requests }: Azure['vault']) =>
  requests.filter(({ headers }) => headers.authorization !== undefined)

it.each([
  ['a host elsewhere', `authorization="${LOGIN}/${TENANT}", resource="https://evil.example"`],
  [
    'a host that looks like it',
    `authorization="${LOGIN}/${TENANT}", resource="https://vault.azure.net.evil"`,
  ],
  ['the management of all of Azure', `resource="https://management.azure.com"`],
  ['a parent domain', `resource="https://azure.net"`],
  ['a top-level domain', `resource="https://net"`],
  ['the resource in other letters', `resource="https://VAULT.azure.NET"`],
  ['a path on the resource', `resource="https://vault.azure.net/x"`],
  ['a scope in place of a resource', `scope="https://graph.microsoft.com/.default"`],
  ['another tenant', `authorization="${LOGIN}/${TENANT}", resource="https://vault.azure.net"`],
  ['no resource at all', 'error="insufficient_claims"'],
  ['an invalid address', 'authorization="x", resource="https://vault.azure.net"'],
])('gives no token to a vault that asks for one for %s', async (_what, challenge) => {
  const azure = await startAzure()
  azure.vault.setSecret(NAME, 'gho_x')
  azure.vault.state.challenge = `Bearer ${challenge}`

  const { opened } = openCredential(azure, { budgetMs: 800 })

  await expect(opened).rejects.toMatchObject({ code: 'credential_unavailable' })
  expect(azure.entra.tokenRequests()).toEqual([])
  expect(bearersAt(azure.vault)).toEqual([])
  for (const asked of azure.proxy.asked) expect(KNOWN).toContain(asked)
})

it('takes the address of the tenant from its own settings, not from the vault', async () => {
  const azure = await startAzure()
  azure.vault.setSecret(NAME, 'gho_x')
  const { tenantId } = azure.settings.identity
  azure.vault.state.challenge = `Bearer authorization="https://evil.example/${tenantId}", resource="https://vault.azure.net"`

  expect(await openCredential(azure).token()).toBe('gho_x')
  for (const asked of azure.proxy.asked) expect(KNOWN).toContain(asked)
})

it.each([
  ['elsewhere', 301, 'https://evil.example/secrets'],
  ['elsewhere', 302, 'https://evil.example/secrets'],
  ['elsewhere', 307, 'https://evil.example/secrets'],
  ['elsewhere', 308, 'https://evil.example/secrets'],
  ['to another secret', 302, `/secrets/${aSecretName('b')}/?api-version=7.6`],
  ['to another secret', 307, `/secrets/${aSecretName('b')}/?api-version=7.6`],
])('follows no redirect of the vault %s (%i)', async (_where, status, location) => {
  const azure = await startAzure()
  azure.vault.setSecret(aSecretName('b'), "gho_bob's")
  azure.vault.failNext({ status, headers: { location } })

  const { opened } = openCredential(azure)

  await expect(opened).rejects.toMatchObject({ code: 'credential_unavailable' })
  expect(azure.vault.requests).toHaveLength(1)
  for (const asked of azure.proxy.asked) expect(KNOWN).toContain(asked)
})

it.each([
  ['elsewhere', 'https://evil.example/token'],
  ['within', '/00000000-0000-4000-8000-000000000000/oauth2/v2.0/token'],
])('follows no redirect of the token endpoint %s with its assertion', async (_where, location) => {
  const azure = await startAzure()
  azure.vault.setSecret(NAME, 'gho_x')
  azure.entra.failNext({ status: 307, headers: { location } })

  const { opened } = openCredential(azure)

  await expect(opened).rejects.toMatchObject({ code: 'credential_unavailable' })
  expect(azure.entra.requests).toHaveLength(1)
  for (const asked of azure.proxy.asked) expect(KNOWN).toContain(asked)
})

it.each(['vault', 'entra'] as const)(
  'trusts no %s whose certificate an unknown authority signed',
  async (server) => {
    const stranger = createTestAuthority()
    const azure = await startAzure({ tls: { [server]: stranger } })
    azure.vault.setSecret(NAME, 'gho_x')

    const { opened } = openCredential(azure, { budgetMs: 800 })

    await expect(opened).rejects.toMatchObject({ code: 'credential_unavailable' })
    expect(azure[server].requests).toEqual([])
  },
)

it('trusts no vault whose certificate is for another name', async () => {
  const azure = await startAzure({ names: { vault: 'other.vault.azure.net' } })
  azure.vault.setSecret(NAME, 'gho_x')

  const { opened } = openCredential(azure, { budgetMs: 800 })

  await expect(opened).rejects.toMatchObject({ code: 'credential_unavailable' })
  expect(azure.vault.requests).toEqual([])
})

it.each([
  ['of the control plane', 'agentweaver-deployment-key'],
  ['without a user', 'ghtok-user--'],
  ['that is too short', `ghtok-user--${'a'.repeat(51)}`],
  ['that is too long', `ghtok-user--${'a'.repeat(53)}`],
  ['in capitals', `ghtok-user--${'A'.repeat(52)}`],
  ['with digits that base32 has not', `ghtok-user--${'1'.repeat(52)}`],
  ['with a path behind it', `${aSecretName()}/versions`],
  ['with a path in it', `ghtok-user--../${'a'.repeat(49)}`],
  ['with an encoded path', `ghtok-user--%2e%2e%2f${'a'.repeat(43)}`],
  ['with a query', `${aSecretName()}?maxresults=25`],
  ['with a line break', `${aSecretName()}\n`],
  ['that is empty, which lists', ''],
])('takes no name %s', (_what, name) => {
  expect(UserSecretName.safeParse(name).success).toBe(false)
  expect(UserSecretName.safeParse(aSecretName()).success).toBe(true)
})

/** Everything that an attacker with AgentHost's token can read from the vault. */
async function askVault({ vault, authority }: Azure, path: string, token: string) {
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number; body: unknown }>()
  const options = {
    port: vault.port,
    host: '127.0.0.1',
    servername: KNOWN[0],
    ca: authority.certificate,
    path,
    headers: { authorization: token },
  }
  request(options, async (response) => {
    resolve({ status: response.statusCode ?? 0, body: await json(response) })
  })
    .on('error', reject)
    .end()
  return promise
}

it('lets the identity of AgentHost list nothing, so that it can read secrets only by their exact names', async () => {
  const azure = await startAzure()
  azure.vault.setSecret(NAME, 'gho_x')
  azure.vault.setSecret(aSecretName('b'), "gho_bob's")
  await openCredential(azure).token()
  const token = bearersAt(azure.vault)[0]?.headers.authorization ?? ''
  const ask = (path: string) => askVault(azure, `${path}?api-version=7.6`, token)

  const listing = await ask('/secrets')
  const versions = await ask(`/secrets/${aSecretName('b')}/versions`)
  const guessed = await ask(`/secrets/${aSecretName('c')}/`)
  const own = await ask(`/secrets/${NAME}/`)
  azure.vault.roles[azure.settings.identity.clientId] = ['getSecret', 'listSecrets']
  const control = await ask('/secrets')

  expect([listing.status, versions.status, guessed.status, own.status]).toEqual([403, 403, 404, 200])
  expect(JSON.stringify([listing, versions, guessed])).not.toContain(aSecretName('b'))
  expect(JSON.stringify(control)).toContain(aSecretName('b'))
})
