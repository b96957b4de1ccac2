import { describe, expect, test } from 'vitest'
import { USER_CREDENTIAL_LIMITS } from '../../contracts/user-credentials.ts'
import { resolveAgent } from '../../runtime/agents/registry.ts'
import { readConfig } from '../../runtime/api/config.ts'
import type { UserVault } from '../../runtime/api/credentials/user-vault.ts'
import { SandboxError } from '../../runtime/kit/errors.ts'
import { ownCredentials } from '../helpers/own-credentials.ts'
import { MemoryStore } from './memory-store.ts'

const VALUE = 'ghp_0123456789abcdefghijklmnopqrstuvwxyz'
const ada = { owner: 'ada', role: 'user' } as const
const HOST = 'npm.corp.example.com'

/** A vault in memory. It refuses every change while `failure` is set. */
function place(settings: { isReadByAgentHost?: boolean } = {}) {
  const store = new MemoryStore()
  const state: { failure?: SandboxError } = {}
  const changes: string[] = []
  const note = (what: string) => {
    if (state.failure) throw state.failure
    changes.push(what)
  }
  const vault: UserVault = {
    secretOf: ({ owner, kind }, version) => ({ name: `${kind} of ${owner}`, version }),
    write: async ({ owner, kind, target }, value) => {
      note(`write ${owner} ${kind} ${target} ${value}`)
      return String(changes.length).padStart(32, '0')
    },
    disable: async ({ owner, kind }) => note(`disable ${owner} ${kind}`),
    delete: async ({ owner, kind }) => {
      note(`delete ${owner} ${kind}`)
      return undefined
    },
  }
  return { store, state, changes, vault, ...ownCredentials({ store, vault, ...settings }) }
}

const UNAVAILABLE = new SandboxError('credential_unavailable', 'the vault cannot be reached')

describe('a credential that is set in a deployment with a vault', () => {
  test('is in the vault, and the store has its version only', async () => {
    const { store, service, changes, credentials } = place()

    const { credentialId } = await service.set(ada, 'registry', { host: HOST, value: VALUE, user: 'ci' })

    expect(changes).toEqual([`write ada registry ${HOST} ${VALUE}`])
    expect(JSON.stringify(store.userCredentials)).not.toContain(VALUE)
    const version = '1'.padStart(32, '0')
    expect(await credentials.read('ada', credentialId)).toEqual({
      secret: { name: 'registry of ada', version },
    })
    await expect(credentials.read('bob', credentialId)).rejects.toMatchObject({ code: 'credential_absent' })
    expect(credentials.valueOf('ada', 'registry', HOST)).toBeUndefined()
    expect(credentials.isInVault('ada', 'registry', HOST)).toBe(true)
  })

  test('is not stored if the vault refuses it', async () => {
    const { store, service, state } = place()
    state.failure = UNAVAILABLE

    await expect(service.set(ada, 'github', { value: VALUE })).rejects.toBe(UNAVAILABLE)
    expect(store.userCredentials).toEqual([])
  })

  test('is not written to the vault beyond the number that an owner may have', async () => {
    const { store, service, changes } = place()
    await service.set(ada, 'github', { value: VALUE })
    const [row] = store.userCredentials
    if (!row) throw new Error('the row was stored')
    store.userCredentials = Array.from({ length: USER_CREDENTIAL_LIMITS.perOwner }, (_, index) => ({
      ...row,
      kind: 'registry',
      target: `npm${index}.example.com`,
    }))

    await expect(service.set(ada, 'github', { value: VALUE })).rejects.toMatchObject({ code: 'conflict' })
    expect(changes).toHaveLength(1)
  })

  test('is disabled in the vault when its owner removes it, and stays set if the vault cannot be reached', async () => {
    const { store, service, state, changes } = place()
    await service.set(ada, 'github', { value: VALUE })
    state.failure = UNAVAILABLE
    await expect(service.remove(ada, 'github', {})).rejects.toBe(UNAVAILABLE)
    expect(store.userCredentials).toHaveLength(1)
    delete state.failure

    await service.remove(ada, 'github', {})

    expect(changes.at(-1)).toBe('disable ada github')
    expect(store.userCredentials).toEqual([])
  })

  test('is disabled in the vault if the store does not accept it, because AgentHost would read it', async () => {
    const { store, service, changes } = place()
    await service.set(ada, 'github', { value: VALUE })
    const before = store.userCredentials
    store.writeUserCredential = () => Promise.reject(new SandboxError('unavailable', 'The store is down.'))

    const failure = service.set(ada, 'github', { value: `${VALUE}2` })

    await expect(failure).rejects.toMatchObject({ code: 'unavailable', message: 'The store is down.' })
    expect(changes.slice(1)).toEqual([`write ada github github.com ${VALUE}2`, 'disable ada github'])
    expect(store.userCredentials).toEqual(before)
  })

  test('ends with an error that names the lost earlier token, if AgentHost reads the newest version', async () => {
    const messageOf = async (settings: { isReadByAgentHost?: boolean }, hasEarlier: boolean) => {
      const { store, service } = place(settings)
      if (hasEarlier) await service.set(ada, 'github', { value: VALUE })
      store.writeUserCredential = () => Promise.reject(new SandboxError('unavailable', 'The store is down.'))
      const failure: unknown = await service
        .set(ada, 'github', { value: `${VALUE}2` })
        .catch((error) => error)
      return failure instanceof SandboxError ? failure.message : undefined
    }

    expect(await messageOf({ isReadByAgentHost: true }, true)).toBe(
      'The store is down. Set the credential again: until then, runs of the kind copilot cannot use your earlier one either.',
    )
    expect(await messageOf({ isReadByAgentHost: true }, false)).toBe('The store is down.')
    expect(await messageOf({}, true)).toBe('The store is down.')
  })

  test('is reported as still in the vault if neither the store nor the vault accepts the end of the change', async () => {
    const { store, service, state } = place()
    store.writeUserCredential = () => {
      state.failure = UNAVAILABLE
      return Promise.reject(new SandboxError('unavailable', 'The store is down.'))
    }

    await expect(service.set(ada, 'github', { value: VALUE })).rejects.toMatchObject({
      code: 'unavailable',
      message: 'The store is down. the vault cannot be reached',
    })
    expect(store.userCredentials).toEqual([])
  })

  test('is read by no service without the vault, which says so', async () => {
    const { store, service } = place()
    const { credentialId } = await service.set(ada, 'github', { value: VALUE })
    const without = ownCredentials({ store })

    await expect(without.credentials.read('ada', credentialId)).rejects.toThrow(
      'it is in a vault that this service does not use; set it again',
    )
    await without.service.remove(ada, 'github', {})
    expect(store.userCredentials).toEqual([])
  })

  test('is used by an agent that connects itself under its name, and its use is noted', () => {
    const onUse = () => undefined
    const operator = { secretNameOf: () => 'the-name', gitHubTokenOf: () => ({ onUse }) }

    expect(resolveAgent({ kind: 'copilot', model: 'gpt' }, operator, 'ada')).toMatchObject({
      credential: { kind: 'keyVault', secretName: 'the-name' },
      onUse,
    })
    // The egress proxy inserts it, so that the sandbox has nothing.
    const behind = { ...operator, proxyRoot: 'PEM' }
    const { credential } = resolveAgent({ kind: 'copilot', model: 'gpt' }, behind, 'ada')
    expect(credential.kind).toBe('token')
  })
})

test('an agent of kind copilot is refused before it starts if its owner has set no token into the vault', () => {
  const operator = { secretNameOf: () => 'the-name', lacksGitHubToken: (owner: string) => owner === 'bob' }
  const start = (owner: string) => resolveAgent({ kind: 'copilot', model: 'gpt' }, operator, owner)

  expect(() => start('bob')).toThrow('set yours with "agentweaver credential set github"')
  expect(start('ada').credential).toEqual({ kind: 'keyVault', secretName: 'the-name' })
})

test('the vault needs an identity, and AgentHosts that read it', () => {
  const cluster = {
    AGENTWEAVER_SANDBOXES: 'kubernetes',
    AGENTWEAVER_DEPLOYMENT_ID: 'test',
    AGENTWEAVER_RUNTIME_CLASS: 'none',
    AGENTWEAVER_USER_VAULT_URL: 'https://aw-users.vault.azure.net',
  }
  const identity = {
    AZURE_AUTHORITY_HOST: 'https://login.microsoftonline.com/',
    AZURE_CLIENT_ID: 'client',
    AZURE_FEDERATED_TOKEN_FILE: '/token',
    AZURE_TENANT_ID: 'tenant',
  }
  const read = (env: Record<string, string>) => readConfig(env, { home: '/home/ada', cwd: '/srv' })

  const { userVaultUrl, identity: found } = read({ ...cluster, ...identity, AGENTWEAVER_USER_VAULT: 'true' })
  expect([userVaultUrl, found?.clientId]).toEqual([cluster.AGENTWEAVER_USER_VAULT_URL, 'client'])
  expect(() => read({ ...cluster, ...identity })).toThrow('needs AGENTWEAVER_USER_VAULT=true')
  expect(() => read({ ...cluster, AGENTWEAVER_USER_VAULT: 'true' })).toThrow('AZURE_CLIENT_ID')
  const { AGENTWEAVER_USER_VAULT_URL } = cluster
  expect(() => read({ AGENTWEAVER_USER_VAULT_URL })).toThrow(
    'cannot be used with AGENTWEAVER_SANDBOXES=local',
  )
})
