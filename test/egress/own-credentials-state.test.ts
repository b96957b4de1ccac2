import { expect, it } from 'vitest'
import { SandboxSettings } from '../../contracts/policy.ts'
import { loadEgressPolicy } from '../../policies/agent/egress/load.ts'
import { NO_CREDENTIALS } from '../../runtime/api/credentials/credentials.ts'
import { generationsOf } from '../../runtime/api/egress/control-state.ts'
import { createNetworkRules } from '../../runtime/api/egress/network-rules.ts'
import { createRunCredentials } from '../../runtime/api/egress/run-credentials.ts'
import type { LiveNetwork } from '../../runtime/store/egress.ts'
import { MemoryStore } from '../api/memory-store.ts'
import { noRestrictions } from '../helpers/no-restrictions.ts'
import { ownCredentials } from '../helpers/own-credentials.ts'

const HOST = 'npm.corp.example.com'
const GIT = 'gitlab.corp.example.com'
const VALUE = 'npm_0123456789abcdefghijklmnopqrstuvwxyz'
const POLICY = `
apiVersion: agentweaver.io/v1
kind: EgressPolicy
name: test
classes:
  agent:
    - { preset: npm, host: ${HOST}, why: the registry of the test }
    - { preset: git, host: ${GIT}, mode: full, repositories: [team/app], credential: own-git, why: a git server }
  command: []
`

const networkOf = (owner: string): LiveNetwork => ({
  ...{ runId: `run-of-${owner}`, generation: 1, kind: 'agent', owner, agentSpec: null, allowedHosts: [] },
  pushed: [],
  pod: { uid: owner, addresses: ['10.0.0.1'] },
  settings: SandboxSettings.parse({ network_enabled: true }),
})

it('lists the credential of an owner for the sandboxes of this owner, and reads it for no other', async () => {
  const { service, credentials } = ownCredentials({ store: new MemoryStore() })
  const ofRuns = createRunCredentials(NO_CREDENTIALS, credentials, new Uint8Array(32))
  const parts = {
    rules: createNetworkRules(loadEgressPolicy(POLICY)),
    restrictions: noRestrictions(),
    credentials: ofRuns,
  }
  const state = () => generationsOf([networkOf('ada'), networkOf('bob')], parts)
  const idsOf = () =>
    state().map(({ destinations }) =>
      destinations.filter(({ host }) => host === HOST).map(({ credential }) => credential),
    )

  const { credentialId } = await service.set({ owner: 'ada', role: 'user' }, 'registry', {
    host: HOST,
    value: VALUE,
  })

  expect(idsOf()).toEqual([[credentialId], [undefined]])
  expect(JSON.stringify(state())).not.toContain(VALUE)
  expect(await ofRuns.read(credentialId, 'ada')).toEqual({ value: VALUE })
  await expect(ofRuns.read(credentialId, 'bob')).rejects.toMatchObject({ code: 'credential_absent' })

  await service.remove({ owner: 'ada', role: 'user' }, 'registry', { host: HOST })
  expect(idsOf()).toEqual([[undefined], [undefined]])
  await expect(ofRuns.read(credentialId, 'ada')).rejects.toMatchObject({ code: 'credential_absent' })
})

it('adds the token of an owner to the requests to one git server, with the user that the server wants', async () => {
  const { service, credentials } = ownCredentials({ store: new MemoryStore() })
  const ofRuns = createRunCredentials(NO_CREDENTIALS, credentials, new Uint8Array(32))
  const rules = createNetworkRules(loadEgressPolicy(POLICY))
  const parts = { rules, restrictions: noRestrictions(), credentials: ofRuns }
  const settings = SandboxSettings.parse({ network_enabled: true })
  const listed = rules.destinationsOf({ settings }, 'agent') ?? []
  const ada = { owner: 'ada', role: 'user' } as const
  const attached = () =>
    generationsOf([networkOf('ada')], parts)[0]?.destinations.map(({ host, attach }) => [host, attach])
  const missing = (owner: string) => ofRuns.missingAt(owner, GIT, listed)

  await service.set(ada, 'git', { host: GIT, value: VALUE })
  expect(attached()).toEqual([
    [HOST, undefined],
    [GIT, { user: 'x-access-token' }],
  ])
  await service.set(ada, 'git', { host: GIT, value: VALUE, user: 'oauth2' })
  expect(attached()?.at(1)).toEqual([GIT, { user: 'oauth2' }])

  expect([missing('ada'), missing('bob')]).toEqual([undefined, 'git'])
  // No command has a placeholder of it.
  expect(ofRuns.forRun({ id: 'run', owner: 'ada' }, listed).placeholders).toEqual([])
})

it('requires no credential of each owner where the operator has one of this name', () => {
  const { credentials } = ownCredentials({ store: new MemoryStore() })
  const of = (credential: string, operators: readonly string[]) => {
    const has = (id: string) => operators.includes(id)
    const policy = POLICY.replace('own-git', credential)
    const listed = createNetworkRules(loadEgressPolicy(policy)).destinationsOf(
      { settings: SandboxSettings.parse({ network_enabled: true }) },
      'agent',
    )
    return createRunCredentials({ ...NO_CREDENTIALS, has }, credentials, new Uint8Array(32)).missingAt(
      'ada',
      GIT,
      listed ?? [],
    )
  }

  expect(of('own-git', [])).toBe('git')
  expect(of('git', ['git'])).toBeUndefined()
  expect(of('git', [])).toBeUndefined()
})
