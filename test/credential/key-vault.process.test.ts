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

it('says which setting is missing instead of going on without a credential', async () => {
  const { settings } = await startAzure()
  const { vaultUrl: _none, ...bare } = settings

  const { opened } = openCredential({ settings: bare })

  await expect(opened).rejects.toMatchObject({ code: 'credential_unavailable' })
})
