import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { composeUserCredentials } from '../../runtime/api/compose-user-credentials.ts'
import { createUserVault, inVault, type SecretPurge } from '../../runtime/api/credentials/user-vault.ts'
import { loadDeploymentKeys } from '../../runtime/api/keys/deployment-keys.ts'
import { readerOfVault } from '../../runtime/egress/cluster/user-vault.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { OwnerRedactors } from '../../runtime/redaction/owner-redactors.ts'
import { MemoryStore } from '../api/memory-store.ts'
import type { Fault } from '../fakes/https-fake.ts'
import { type Azure, startAzure } from './azure-rig.ts'

const ADA = { owner: 'ada', kind: 'github', target: 'github.com' } as const
const VALUE = 'ghp_0123456789abcdefghijklmnopqrstuvwxyz'
const KEY = new Uint8Array(32).fill(7)
const WRITER = ['setSecret', 'deleteSecret'] as const

const error = (status: number, code: string, headers = {}): Fault => ({
  status,
  headers,
  body: { error: { code, message: 'planned by the test' } },
})

const placeOf = ({ settings: { identity, vaultUrl = '' } }: Pick<Azure, 'settings'>) => ({
  identity,
  vaultUrl,
})

const daysUntil = (purge: SecretPurge | undefined) =>
  Math.round(((purge?.at.getTime() ?? 0) - Date.now()) / 86_400_000)

/** The vault as the API uses it, with the rights of its role. */
async function aVault(may: readonly ('getSecret' | 'setSecret' | 'deleteSecret')[] = WRITER) {
  const azure = await startAzure({ may })
  const vault = createUserVault({ ...placeOf(azure), nameKey: KEY, budgetMs: 120_000 })
  const { name } = vault.secretOf(ADA, '0'.repeat(32))
  return { azure, vault, name }
}

it('writes a value that the egress proxy reads, and cannot read it itself', async () => {
  const { azure, vault, name } = await aVault()

  const version = await vault.write(ADA, VALUE)

  expect(azure.vault.names()).toEqual([name])
  expect(name).toMatch(/^ghtok-user--[a-z2-7]{52}$/)
  const secret = vault.secretOf(ADA, version)
  const read = () => readerOfVault(placeOf(azure), 120_000)(secret)
  await expect(read()).rejects.toMatchObject({ code: 'credential_forbidden' })
  azure.vault.roles[azure.settings.identity.clientId] = ['getSecret']
  expect(await read()).toBe(VALUE)
})

it('reads the version that the store names, also when there is a newer one', async () => {
  const { azure, vault } = await aVault(['getSecret', 'setSecret'])
  const read = readerOfVault(placeOf(azure), 120_000)
  const first = await vault.write(ADA, `${VALUE}1`)
  const second = await vault.write(ADA, `${VALUE}2`)

  expect(await read(vault.secretOf(ADA, first))).toBe(`${VALUE}1`)
  expect(await read(vault.secretOf(ADA, second))).toBe(`${VALUE}2`)
})

it('gives each owner, kind and target another name', () => {
  const nameKey = KEY
  const vault = createUserVault({ nameKey, vaultUrl: 'https://v', identity: {} as never })
  const of = [
    ADA,
    { ...ADA, owner: 'bob' },
    { owner: 'ada', kind: 'registry', target: 'npm.example.com' },
    { owner: 'ada', kind: 'registry', target: 'pypi.example.com' },
    { owner: 'ada', kind: 'openai-compatible', target: 'npm.example.com' },
  ] as const

  const names = of.map((one) => vault.secretOf(one, '0'.repeat(32)).name)

  expect(new Set(names).size).toBe(of.length)
  expect(names.slice(2).every((name) => /^usercred--[a-z2-7]{52}$/.test(name))).toBe(true)
})

it('leaves a disabled version without the value when a credential is removed', async () => {
  const { azure, vault, name } = await aVault(['setSecret', 'getSecret'])
  const version = await vault.write(ADA, VALUE)

  await vault.disable(ADA, 'It is still set')

  const newest = azure.vault.versionsOf(name).at(-1)
  expect(newest?.enabled).toBe(false)
  expect(newest?.value).not.toContain(VALUE)
  expect(version).not.toBe(newest?.id)
  // A new value is usable at once.
  const again = await vault.write(ADA, VALUE)
  expect(await readerOfVault(placeOf(azure), 120_000)(vault.secretOf(ADA, again))).toBe(VALUE)
})

it('leaves no version that AgentHost could read when a change is undone, and says so if it cannot', async () => {
  const { azure, vault } = await aVault(['setSecret', 'getSecret'])
  const newest = () =>
    readerOfVault(placeOf(azure), 120_000)({ name: vault.secretOf(ADA, '').name, version: '' })
  await vault.write(ADA, VALUE)
  expect(await newest()).toBe(VALUE)

  await vault.disable(ADA, 'It is still there')

  await expect(newest()).rejects.toMatchObject({ code: 'credential_forbidden' })
  azure.vault.roles[azure.settings.identity.clientId] = []
  await expect(vault.disable(ADA, 'It is still there')).rejects.toThrow('It is still there. An operator must')
})

it('disables nothing, and does not fail, if the secret was deleted', async () => {
  const { azure, vault, name } = await aVault()
  await vault.write(ADA, VALUE)
  await vault.delete(ADA, true)

  await vault.disable(ADA, 'It is still there')

  expect(azure.vault.deletedNames()).toEqual([name])
})

describe('a write whose response is lost', () => {
  /** The vault carries out the write, and accepts no second attempt. */
  const LOST: readonly Fault[] = ['none', 'answer-lost', error(429, 'Throttled', { 'retry-after': '3600' })]

  it('is followed by a disabled version, and the error does not claim that nothing was stored', async () => {
    const { azure, vault, name } = await aVault()
    azure.vault.failNext(...LOST)

    const failure = await vault.write(ADA, VALUE).catch((cause: Error) => cause)

    expect(failure).toMatchObject({ code: 'credential_unavailable' })
    expect(String(failure)).toContain(
      'The value that you sent is not used, but the vault may keep it in an old version until your data is erased. Try again.',
    )
    const versions = azure.vault.versionsOf(name)
    expect(versions.map(({ value, enabled }) => [value === VALUE, enabled])).toEqual([
      [true, true],
      [false, false],
    ])
  })

  it('is reported with the next steps if the vault does not accept a disabled version either', async () => {
    const { azure, vault } = await aVault()
    azure.vault.failNext(...LOST, error(429, 'Throttled', { 'retry-after': '3600' }))

    const failure = String(await vault.write(ADA, VALUE).catch((cause: Error) => cause))

    expect(failure).toContain('The value that you sent may be in the vault, and could not be disabled there.')
    expect(failure).toContain(
      'Set the credential again, or remove it if "agentweaver credential list" shows it.',
    )
  })

  it('succeeds if the vault confirms the next attempt', async () => {
    const { azure, vault, name } = await aVault()
    azure.vault.failNext('none', 'answer-lost')

    const version = await vault.write(ADA, VALUE)

    expect(azure.vault.versionsOf(name).at(-1)).toMatchObject({ id: version, value: VALUE, enabled: true })
  })
})

it('deletes all versions without the right to read deleted ones, and accepts that the secret does not exist', async () => {
  const { azure, vault, name } = await aVault()
  await vault.write(ADA, VALUE)

  await vault.delete(ADA, true)
  await vault.delete({ ...ADA, owner: 'bob' }, false)

  expect(azure.vault.names()).toEqual([])
  expect(azure.vault.deletedNames()).toEqual([name])
})

it('deletes what an erased owner has in the vault, and nothing of others', async () => {
  const { azure } = await aVault()
  const folder = mkdtempSync(join(tmpdir(), 'aw-erase-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const keys = await loadDeploymentKeys(folder)
  const store = new MemoryStore()
  const redactors = new OwnerRedactors([])
  const { identity, vaultUrl: userVaultUrl } = placeOf(azure)
  const around = { store: store as never, redactors, keys, log: silentLog }
  const users = await composeUserCredentials({ identity, userVaultUrl }, around)
  onTestFinished(() => users.stop())
  const vault = createUserVault({ ...placeOf(azure), nameKey: keys.derive('name'), budgetMs: 120_000 })
  const bob = { ...ADA, owner: 'bob' }
  const row = { fingerprint: '0'.repeat(16), keyId: 'k', setAt: new Date().toISOString() }
  store.userCredentials = [
    { ...ADA, ...row, sealed: inVault(await vault.write(ADA, VALUE)) },
    { ...ADA, ...row, kind: 'registry', sealed: 'encrypted-in-the-store' },
    { ...bob, ...row, sealed: inVault(await vault.write(bob, VALUE)) },
  ]

  await users.credentials.refresh()
  const { lacksGitHubToken } = users.modelsOf({ models: { names: {} } }, () => false)
  expect(['ada', 'carol'].map(lacksGitHubToken)).toEqual([false, true])

  // Ada has removed this one: no row names it, and the vault has its earlier version.
  const removed = { owner: 'ada', kind: 'git', target: 'gitlab.example.com' } as const
  await vault.write(removed, VALUE)
  await vault.disable(removed, 'It is still set')
  const hosts = { git: new Set([removed.target]), registry: new Set(['npm.example.com']) }
  const erase = users.eraserFor({ provider: {} as never, hosts }, { models: { names: {} } })

  const purgedAt = await erase('ada')
  const again = await erase('ada')

  const nameOf = (of: Parameters<typeof vault.secretOf>[0]) => vault.secretOf(of, '0'.repeat(32)).name
  expect(azure.vault.deletedNames()).toEqual([nameOf(ADA), nameOf(removed)])
  expect(purgedAt).toEqual({ at: expect.any(Date), isExact: true })
  expect(daysUntil(purgedAt)).toBe(90)
  // The rows still exist, as after an erasure that broke off. This identity cannot read the date of a deleted secret.
  expect(again).toEqual({ at: expect.any(Date), isExact: false })
  expect(daysUntil(again)).toBe(90)
  store.userCredentials = store.userCredentials.filter(({ owner }) => owner !== 'ada')
  expect(await erase('ada')).toBeUndefined()
  expect(azure.vault.names()).toEqual([nameOf(bob)])
})

describe('the date of a deletion whose response is lost', () => {
  it('is the one of the deleted secret, if the identity may read it', async () => {
    const { azure, vault, name } = await aVault([...WRITER, 'getSecret'])
    await vault.write(ADA, VALUE)
    azure.vault.failNext('none', 'answer-lost')

    const purge = await vault.delete(ADA, true)

    expect(azure.vault.deletedNames()).toEqual([name])
    expect(purge).toEqual({ at: azure.vault.purgeDateOf(name), isExact: true })
    expect(await vault.delete(ADA, false)).toEqual(purge)
  })

  it('is the latest possible one with the role of the API, which does not permit to read it', async () => {
    const { azure, vault, name } = await aVault()
    await vault.write(ADA, VALUE)
    azure.vault.failNext('none', 'answer-lost')

    // The store has no row: the credential was removed.
    const purge = await vault.delete(ADA, false)

    expect(azure.vault.deletedNames()).toEqual([name])
    expect(purge).toEqual({ at: expect.any(Date), isExact: false })
    expect(daysUntil(purge)).toBe(90)
  })
})

it('explains that the vault still has the deleted secret of that name', async () => {
  const { vault, name } = await aVault()
  await vault.write(ADA, VALUE)
  await vault.delete(ADA, true)

  const failure = await vault.write(ADA, VALUE).catch((cause: Error) => cause)

  expect(failure).toMatchObject({ code: 'conflict' })
  expect(String(failure)).toContain('409 (ObjectIsDeletedButRecoverable). Nothing was stored.')
  expect(String(failure)).toContain('An operator can recover it')
  expect(String(failure)).not.toContain(name)
})

it('explains that the identity lacks the role, without a name, a value or a token', async () => {
  const { azure, vault, name } = await aVault([])

  const failure = await vault.write(ADA, VALUE).catch((cause: Error) => cause)

  expect(failure).toMatchObject({ code: 'credential_forbidden' })
  expect(String(failure)).toContain('the vault responded with 403 (ForbiddenByRbac). Nothing was stored.')
  const whole = `${String(failure)} ${JSON.stringify(failure)} ${String((failure as Error).cause)}`
  for (const secret of [name, VALUE, 'eyJ']) expect(whole).not.toContain(secret)
  expect(azure.vault.versionsOf(name)).toEqual([])
})

it.each<[string, Fault[]]>([
  ['throttles', [error(429, 'Throttled', { 'retry-after': '1' })]],
  ['fails', [error(500, 'InternalServerError'), error(503, 'ServiceUnavailable')]],
  ['recovers the deleted secret', ['none', error(409, 'ObjectIsBeingRecovered')]],
  ['breaks the connection', ['reset']],
  ['does not respond', ['silence']],
])('writes to a vault that %s at first', async (_what, faults) => {
  const { azure, vault, name } = await aVault()
  azure.vault.failNext(...faults)

  const version = await vault.write(ADA, VALUE)

  expect(azure.vault.versionsOf(name).at(-1)).toMatchObject({ id: version, value: VALUE, enabled: true })
})

it('does not wait for a vault that asks for more time than there is', async () => {
  const { azure, vault, name } = await aVault()
  azure.vault.failNext(error(429, 'Throttled', { 'retry-after': '3600' }))

  await expect(vault.write(ADA, VALUE)).rejects.toMatchObject({
    code: 'credential_unavailable',
    message: expect.stringContaining('429 (Throttled). Nothing was stored. Try again.'),
  })
  expect(azure.vault.versionsOf(name)).toEqual([])
})

it('sends the value only to the vault, and no value without a token', async () => {
  const { azure, vault } = await aVault()

  await vault.write(ADA, VALUE)

  const withValue = azure.vault.requests.filter(({ body }) => body.includes(VALUE))
  expect(withValue).toHaveLength(1)
  expect(withValue[0]?.headers.authorization).toMatch(/^Bearer /)
  expect(azure.vault.requests.filter(({ headers }) => headers.authorization === undefined)).toHaveLength(1)
  expect(azure.entra.requests.some(({ body }) => body.includes(VALUE))).toBe(false)
})
