import { expect, it } from 'vitest'
import { SandboxSettings } from '../../contracts/policy.ts'
import { loadEgressPolicy } from '../../policies/agent/egress/load.ts'
import { NO_CREDENTIALS } from '../../runtime/api/credentials/credentials.ts'
import { createNetworkRules } from '../../runtime/api/egress/network-rules.ts'
import { createRunCredentials } from '../../runtime/api/egress/run-credentials.ts'
import { MemoryStore } from '../api/memory-store.ts'
import { ownCredentials } from '../helpers/own-credentials.ts'

const NPM = 'npm.corp.example.com'
const API = 'api.corp.example.com'
const GIT = 'gitlab.corp.example.com'
const OWN = 'npm_0123456789abcdefghijklmnopqrstuvwxyz'
const POLICY = `
apiVersion: agentweaver.io/v1
kind: EgressPolicy
name: test
classes:
  agent:
    - { host: ${NPM}, ports: [443], mode: read-only, paths: [/**], accepts: registry, credential: corp, why: the registry of the test }
    - { preset: git, host: ${GIT}, mode: full, repositories: [team/app], credential: corp, why: a git server }
    - { host: ${API}, ports: [443], mode: read-only, paths: [/**], credential: token, why: an API of the test }
  command: []
`
const isCertificate = (id: string) => id === 'corp'
const operators = {
  ...NO_CREDENTIALS,
  has: (id: string) => id === 'corp' || id === 'token',
  isCertificate,
  variableOf: () => 'CORP_TOKEN',
  placeholderOf: () => 'placeholder-of-a-credential',
}

it('is how the proxy connects to each host whose entry names it, and commands hold nothing for it', async () => {
  const { service, credentials } = ownCredentials({ store: new MemoryStore() })
  // The list of the rig accepts it; the one of this deployment does not.
  await service.set({ owner: 'ada', role: 'user' }, 'registry', { host: NPM, value: OWN })
  const rules = createNetworkRules(loadEgressPolicy(POLICY), isCertificate)
  const settings = SandboxSettings.parse({ network_enabled: true })
  const listed = rules.destinationsOf({ settings }, 'agent') ?? []

  const { destinations, placeholders, environment } = createRunCredentials(
    operators,
    credentials,
    new Uint8Array(32),
  ).forRun({ id: 'run', owner: 'ada' }, listed)

  expect(destinations).toMatchObject([
    { host: NPM, credential: 'corp', credentialKind: 'client-certificate', authority: expect.any(String) },
    { host: GIT, credential: 'corp', credentialKind: 'client-certificate', authority: expect.any(String) },
    { host: API, credential: 'token' },
  ])
  expect(destinations.filter((one) => 'attach' in one)).toEqual([])
  expect(destinations[2]).not.toHaveProperty('credentialKind')
  expect(placeholders).toEqual([{ credential: 'token', value: 'placeholder-of-a-credential' }])
  expect(environment?.gitConfig).toEqual([])
  expect(Object.keys(environment?.variables ?? {})).toEqual(['CORP_TOKEN'])
})

it('leaves no place for the credentials of owners', () => {
  const policy = loadEgressPolicy(POLICY)
  const hosts = (rules: ReturnType<typeof createNetworkRules>) => [
    ...rules.credentialHosts.registry,
    ...rules.credentialHosts.git,
  ]

  expect(hosts(createNetworkRules(policy, isCertificate))).toEqual([])
  expect(createNetworkRules(policy, isCertificate).gitServer(GIT)).toBeUndefined()
  // The control: with a token of the operator.
  expect(hosts(createNetworkRules(policy, () => false))).toEqual([NPM, GIT])
})
