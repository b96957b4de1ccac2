import { generateKeyPairSync } from 'node:crypto'
import { rmSync } from 'node:fs'
import { expect, it, vi } from 'vitest'
import type { Fault } from '../fakes/https-fake.ts'
import { stopTimers } from '../helpers/stop-timers.ts'
import { until } from '../helpers/until.ts'
import { type Azure, type ClusterToken, startAzure } from './azure-rig.ts'
import { NAME, openCredential } from './open-credential.ts'

const error = (status: number, code: string, headers = {}): Fault => ({
  status,
  headers,
  body: { error: { code, message: 'planned by the test' } },
})

it.each<[string, 'vault' | 'entra', Fault[]]>([
  ['a vault that throttles', 'vault', [error(429, 'Throttled', { 'retry-after': '1' })]],
  ['a vault that fails', 'vault', [error(500, 'InternalServerError'), error(503, 'ServiceUnavailable')]],
  ['a vault whose line breaks', 'vault', ['reset', 'reset']],
  ['a vault that says nothing for a while', 'vault', ['silence']],
  ['a token endpoint that fails', 'entra', [error(500, 'x'), error(503, 'x')]],
  ['a token endpoint that throttles', 'entra', [error(429, 'x', { 'retry-after': '1' })]],
  ['a token endpoint whose line breaks', 'entra', ['reset']],
])('gets its secret from behind %s', async (_what, server, faults) => {
  const azure = await startAzure()
  azure.vault.setSecret(NAME, 'gho_x')
  azure[server].failNext(...faults)

  const token = await openCredential(azure).token()

  expect(token).toBe('gho_x')
  expect(azure[server].requests.length).toBeGreaterThan(faults.length)
})

it.each<[string, Fault]>([
  ['nothing at all', { status: 200 }],
  ['a page', { status: 200, headers: { 'content-type': 'text/html' }, body: '<html>' }],
  ['no text', { status: 200, body: { value: 1234567, id: 'https://evil.example/secrets/x/y' } }],
])('takes no answer of the vault that is %s', async (_what, answer) => {
  const azure = await startAzure()
  azure.vault.setSecret(NAME, 'gho_x')
  await openCredential(azure).token()
  azure.vault.requests.length = 0
  const challenge = { 'www-authenticate': azure.vault.state.challenge }
  azure.vault.failNext({ status: 401, headers: challenge }, answer)

  const { opened } = openCredential(azure)

  await expect(opened).rejects.toMatchObject({ code: expect.stringMatching(/^credential_/) })
  expect(azure.vault.requests).toHaveLength(2)
})

it('waits as long as a server that throttles asks for', async () => {
  const azure = await startAzure()
  azure.vault.setSecret(NAME, 'gho_x')
  azure.vault.failNext(error(429, 'Throttled', { 'retry-after': '2' }))
  const waits = stopTimers()

  const token = openCredential(azure).token()
  await until('it waits for 2 s', () => waits().includes(2_000))
  vi.advanceTimersByTime(2_000)

  expect(await token).toBe('gho_x')
})

it('does not wait for a server that asks for more time than there is', async () => {
  const azure = await startAzure()
  azure.vault.failNext(error(429, 'Throttled', { 'retry-after': '3600' }))

  const { opened } = openCredential(azure)

  await expect(opened).rejects.toMatchObject({
    code: 'credential_unavailable',
    message: 'the vault responded with 429 (Throttled)',
  })
  expect(azure.vault.requests).toHaveLength(1)
})

it.each<[string, Fault]>([
  ['fails', error(500, 'InternalServerError')],
  ['breaks every line', 'reset'],
  ['says nothing', 'silence'],
])('gives up after its time budget if the vault %s', async (_what, fault) => {
  const azure = await startAzure()
  azure.vault.setSecret(NAME, 'gho_x')
  // Twice the budget would reach the answer behind these.
  azure.vault.failNext(...Array.from({ length: 8 }, () => fault))

  const { opened } = openCredential(azure, { budgetMs: 1500 })

  await expect(opened).rejects.toMatchObject({ code: 'credential_unavailable' })
})

it('is unavailable, not absent, if the host names do not resolve', async () => {
  const azure = await startAzure()
  await azure.proxy.close()

  const { opened } = openCredential(azure, { budgetMs: 500 })

  await expect(opened).rejects.toMatchObject({ code: 'credential_unavailable' })
})

const STRANGER = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey

it.each<[string, ClusterToken, string]>([
  ['of another cluster', { issuer: 'https://oidc.test/cluster-2' }, 'AADSTS700211'],
  ['of another service account', { subject: 'system:serviceaccount:default:default' }, 'AADSTS700213'],
  ['for another audience', { audience: 'agentweaver-api' }, 'AADSTS700212'],
  ['that has expired', { expiresIn: '-1m' }, 'AADSTS700024'],
  ['signed by another issuer', { key: STRANGER }, 'AADSTS5000224'],
])('is forbidden with a projected token %s', async (_what, token, code) => {
  const azure = await startAzure()
  azure.vault.setSecret(NAME, 'gho_x')
  await azure.project(token)

  const { opened } = openCredential(azure)

  await expect(opened).rejects.toMatchObject({
    code: 'credential_forbidden',
    message: `the token endpoint responded with 401 (${code})`,
  })
})

it('says that the projected token is missing, and names no file', async () => {
  const azure = await startAzure()
  rmSync(azure.tokenFile)

  const { opened } = openCredential(azure)

  await expect(opened).rejects.toMatchObject({
    code: 'credential_unavailable',
    message: 'the projected token of this pod cannot be read',
  })
})

it('reads the projected token again after the kubelet replaced it', async () => {
  const azure = await startAzure()
  azure.vault.setSecret(NAME, 'gho_x')
  await azure.project({ expiresIn: '-1m' })
  await expect(openCredential(azure).opened).rejects.toMatchObject({ code: 'credential_forbidden' })

  await azure.project()

  expect(await openCredential(azure).token()).toBe('gho_x')
})

it('reveals no secret in any failure', async () => {
  const failures: [string, (azure: Azure) => unknown][] = [
    ['absent', () => undefined],
    ['forbidden', ({ vault, settings }) => Reflect.set(vault.roles, settings.identity.clientId, [])],
    ['broken', ({ vault }) => vault.failNext(...Array.from({ length: 20 }, (): Fault => 'reset'))],
    ['refused', ({ project }) => project({ audience: 'other' })],
  ]
  for (const [what, prepare] of failures) {
    const azure = await startAzure()
    await prepare(azure)
    const { opened, said } = openCredential(azure, { budgetMs: 700 })
    const fault: unknown = await opened.catch((reason) => reason)
    const assertion = azure.entra.requests.at(-1)?.body ?? ''
    const told = [
      ...said,
      String(fault),
      JSON.stringify(fault),
      (fault as Error).stack,
      deepText(fault),
    ].join()

    expect(told, what).toContain('credential_')
    expect(told, what).not.toContain('ghtok-user')
    expect(told, what).not.toContain(new URLSearchParams(assertion).get('client_assertion') ?? 'Bearer ')
  }
})

/** Everything that an error holds, its hidden properties and its causes too. */
function deepText(error: unknown, depth = 0): string {
  if (typeof error !== 'object' || error === null || depth > 6) return String(error)
  return Object.getOwnPropertyNames(error)
    .map((key) => `${key}=${deepText(Reflect.get(error, key), depth + 1)}`)
    .join('\n')
}
