import { expect, it } from 'vitest'
import { MODEL_CREDENTIAL, PROXY_IDENTITY } from '../../contracts/egress.ts'
import { loadEgressPolicy } from '../../policies/agent/egress/load.ts'
import { modelRouteOf } from '../../runtime/agents/registry.ts'
import { readConfig } from '../../runtime/api/config.ts'
import { NO_CREDENTIALS } from '../../runtime/api/credentials/credentials.ts'
import { withModelKey } from '../../runtime/api/credentials/model-key.ts'
import { createNetworkRules } from '../../runtime/api/egress/network-rules.ts'

const POLICY = `
apiVersion: agentweaver.io/v1
kind: EgressPolicy
name: test
classes:
  agent:
    - { host: models.agentweaver-test.com, ports: [443], mode: full, caller: agent-host, addresses: [10.1.0.0/24], why: the model of the team }
    - { host: open.agentweaver-test.com, ports: [443], mode: full, why: a host without addresses }
  command: []
`

const credentials = {
  ...NO_CREDENTIALS,
  has: (id: string) => id === 'model',
}

const config = (env: Record<string, string | undefined>) =>
  readConfig(env, { home: '/home/a', cwd: '/home/a' })

it('reaches a model server at the addresses of its entry, and at no others of the list', () => {
  const { addressesOf } = createNetworkRules(loadEgressPolicy(POLICY))

  expect(addressesOf(new URL('https://models.agentweaver-test.com/v1'))).toEqual(['10.1.0.0/24'])
  expect(addressesOf(new URL('https://models.agentweaver-test.com:8443/v1'))).toBeUndefined()
  expect(addressesOf(new URL('http://models.agentweaver-test.com/v1'))).toBeUndefined()
  expect(addressesOf(new URL('https://open.agentweaver-test.com/v1'))).toBeUndefined()
})

it('reaches a model server only at the addresses of AgentHost’s entry, if commands have another one before it', () => {
  const commands =
    '{ host: models.agentweaver-test.com, ports: [443], mode: full, addresses: [10.9.0.0/24], why: the same host for commands }'
  const addressesOf = (policy: string) =>
    createNetworkRules(loadEgressPolicy(policy)).addressesOf(
      new URL('https://models.agentweaver-test.com/v1'),
    )
  const both = POLICY.replace('  agent:\n', `  agent:\n    - ${commands}\n`)

  expect(addressesOf(both)).toEqual(['10.1.0.0/24'])
  expect(addressesOf(both.replace(', addresses: [10.1.0.0/24]', ''))).toBeUndefined()
  expect(addressesOf(both.replace(/^.*caller: agent-host.*\n/m, ''))).toEqual(['10.9.0.0/24'])
})

it('has a credential of the list as its key', () => {
  const { models } = config({
    OPENAI_BASE_URL: 'https://models.agentweaver-test.com/v1',
    AGENTWEAVER_CREDENTIALS_FILE: '/c.yaml',
    AGENTWEAVER_MODEL_CREDENTIAL: 'model',
  })

  expect(modelRouteOf({ kind: 'openaiCompatible', model: 'm' }, models)).toMatchObject({
    credential: 'model',
  })
  expect(() => withModelKey(credentials, models)).not.toThrow()
  expect(() => withModelKey(credentials, { ...models, modelCredential: 'other' })).toThrow(
    'AGENTWEAVER_CREDENTIALS_FILE has no credential other',
  )
})

it('has no client certificate as its key', () => {
  const withCertificate = { ...credentials, isCertificate: (id: string) => id === 'model' }

  expect(() => withModelKey(withCertificate, { modelCredential: 'model' })).toThrow(
    'model is a client certificate',
  )
})

const FOUNDRY = {
  AGENTWEAVER_SANDBOXES: 'kubernetes',
  AGENTWEAVER_DEPLOYMENT_ID: 'test',
  AGENTWEAVER_RUNTIME_CLASS: 'none',
  AGENTWEAVER_FOUNDRY_URL: 'https://aw.openai.azure.com/openai/v1',
}
const PROXY = { AGENTWEAVER_EGRESS_CONTROL_PORT: '8082', AGENTWEAVER_EGRESS_PROXY_ADDRESS: '10.0.0.128' }

it('calls models of Azure AI with the identity of the egress proxy, and never without the proxy', () => {
  const { models } = config({ ...FOUNDRY, ...PROXY })

  expect(modelRouteOf({ kind: 'foundry', model: 'm' }, models)).toEqual({
    upstream: 'https://aw.openai.azure.com/openai/v1',
    header: 'authorization',
    models: ['m'],
    credential: PROXY_IDENTITY,
  })
  for (const key of Object.keys(PROXY))
    expect(() => config({ ...FOUNDRY, ...PROXY, [key]: undefined })).toThrow(
      'needs AGENTWEAVER_EGRESS_CONTROL_PORT and AGENTWEAVER_EGRESS_PROXY_ADDRESS',
    )
  expect(() => config({ AGENTWEAVER_FOUNDRY_URL: FOUNDRY.AGENTWEAVER_FOUNDRY_URL })).toThrow(
    'cannot be used with AGENTWEAVER_SANDBOXES=local',
  )
})

it.each([MODEL_CREDENTIAL, PROXY_IDENTITY])('keeps the id %s for itself', (reserved) => {
  const listed = { ...NO_CREDENTIALS, has: (id: string) => id === reserved }

  expect(() => withModelKey(listed, {})).toThrow(`the id ${reserved} is reserved`)
})

it.each([
  [
    { OPENAI_API_KEY: 'k', AGENTWEAVER_CREDENTIALS_FILE: '/c.yaml' },
    'cannot be combined with OPENAI_API_KEY',
  ],
  [{}, 'needs AGENTWEAVER_CREDENTIALS_FILE'],
])('is refused with %j', (env, message) => {
  expect(() => config({ AGENTWEAVER_MODEL_CREDENTIAL: 'model', ...env })).toThrow(message)
})
