import { describe, expect, it } from 'vitest'
import { checkTree } from '../../charts-src/checks/check-tree.ts'
import { apiEnv } from '../../charts-src/constructs/api-env.ts'
import { readConfig } from '../../runtime/api/config.ts'
import {
  anEnvironment,
  aTree,
  type EnvironmentName,
  type Loose,
  loadedWith,
  mistakesWith,
  objectIn,
  PROXY_SIZE,
  setEgress,
} from './fixture.ts'

const AZURE_AI = 'aw-models.openai.azure.com'

const all = (value: Loose) => {
  value['egress'].credentials = [{ id: 'model' }]
  value['sizes'].egressProxy.credentials = PROXY_SIZE.container
  value['infra'].azure.modelHost = AZURE_AI
  value['models'] = {
    openaiCompatible: {
      baseUrl: 'https://models.corp.example.com/v1',
      credential: 'model',
      names: ['a', 'b'],
    },
    copilot: { names: ['gpt-5'] },
    foundry: { names: ['gpt-5-mini', 'gpt-5'] },
  }
}

const read = (env: Record<string, string>) => readConfig(env, { home: '/home/a', cwd: '/home/a' })

describe('the models of an environment', () => {
  it('become settings of the API, which reads them', () => {
    const environment = loadedWith('prod', all)
    const { containers } = objectIn(aTree(environment), 'Deployment', 'agentweaver-api')['spec'].template.spec
    const env = containers[0].env as { name: string; value: string }[]

    const { models } = read(Object.fromEntries(env.map(({ name, value }) => [name, value])))

    expect(checkTree(aTree(environment))).toEqual([])
    expect(models).toEqual({
      kinds: ['scripted', 'openaiCompatible', 'copilot', 'foundry'],
      openaiBaseUrl: 'https://models.corp.example.com/v1',
      modelCredential: 'model',
      foundryUrl: `https://${AZURE_AI}/openai/v1`,
      names: { openaiCompatible: ['a', 'b'], copilot: ['gpt-5'], foundry: ['gpt-5-mini', 'gpt-5'] },
    })
    expect(env).toContainEqual({
      name: 'AGENTWEAVER_EGRESS_PROXY_ADDRESS',
      value: environment.egress.proxyAddress,
    })
  })

  it('give the Azure identity for the model to the container that inserts credentials, and to nothing else', () => {
    const environment = loadedWith('prod', all)
    const { azure } = environment.infra
    const tree = aTree(environment)
    const pod = objectIn(tree, 'Deployment', 'agentweaver-egress-proxy')['spec'].template.spec
    const [proxy, credentials] = pod.containers as Loose[]
    const about = ({ env }: Loose) =>
      Object.fromEntries(
        (env as Loose[])
          .filter(({ name }) => /AZURE|FOUNDRY/.test(name))
          .map(({ name, value }) => [name, value]),
      )
    const audiencesIn = ({ volumeMounts }: Loose) =>
      (volumeMounts as Loose[]).flatMap(({ name }) =>
        (pod.volumes.find((volume: Loose) => volume['name'] === name).projected?.sources ?? []).map(
          ({ serviceAccountToken }: Loose) => serviceAccountToken.audience,
        ),
      )

    expect(about(credentials ?? {})).toEqual({
      AGENTWEAVER_EGRESS_FOUNDRY_URL: `https://${AZURE_AI}/openai/v1`,
      AZURE_AUTHORITY_HOST: `https://${azure?.loginHost}/`,
      AZURE_CLIENT_ID: azure?.identities.egressProxy.clientId,
      AZURE_FEDERATED_TOKEN_FILE: '/var/run/secrets/azure/tokens/azure-identity-token',
      AZURE_TENANT_ID: azure?.tenantId,
    })
    expect(audiencesIn(credentials ?? {})).toEqual(['api://AzureADTokenExchange', 'agentweaver-credentials'])
    expect(about(proxy ?? {})).toEqual({})
    expect(audiencesIn(proxy ?? {})).toEqual(['agentweaver-control'])
    const sandboxes = objectIn(tree, 'SandboxTemplate', 'agentweaver-agent')
    const list = objectIn(tree, 'ConfigMap', 'agentweaver-policy')['data']['egress.yaml']
    expect(JSON.stringify([sandboxes, list])).not.toContain(AZURE_AI)
  })

  it('add that container without credentials of the operator, and need no Secret of them', () => {
    const environment = loadedWith('prod', (value) => {
      all(value)
      delete value['egress'].credentials
      delete value['models'].openaiCompatible
    })
    const tree = aTree(environment)
    const { containers } = objectIn(tree, 'Deployment', 'agentweaver-egress-proxy')['spec'].template.spec

    expect(checkTree(tree)).toEqual([])
    expect(containers.map(({ name }: Loose) => name)).toEqual(['egress-proxy', 'egress-credentials'])
    expect(apiEnv(environment)).toMatchObject({ AGENTWEAVER_EGRESS_PROXY_ADDRESS: '10.0.0.128' })
    expect(apiEnv(environment)).not.toHaveProperty('AGENTWEAVER_CREDENTIALS_FILE')
    expect(JSON.stringify(objectIn(tree, 'Deployment', 'agentweaver-api'))).not.toContain('-credentials')
  })

  it('leave only the vault to the identity of the proxy if the environment has no models of kind foundry', () => {
    const environment = loadedWith('prod', (value) => {
      all(value)
      delete value['models'].foundry
    })
    const deployment = objectIn(aTree(environment), 'Deployment', 'agentweaver-egress-proxy')

    expect(JSON.stringify(deployment)).toContain('AGENTWEAVER_EGRESS_VAULT_URL')
    expect(JSON.stringify(deployment)).not.toContain('FOUNDRY')
  })

  it('are none without the section: only scripted agents', () => {
    const environment = loadedWith('prod', (value) => delete value['models'])

    expect(environment.models).toEqual({})
    expect(read(apiEnv(environment)).models).toEqual({ kinds: ['scripted'], names: {} })
  })

  it.each(['dev', 'local', 'prod'] as const)('are scripted agents and Copilot in %s', (name) => {
    expect(apiEnv(anEnvironment(name))).toMatchObject({
      AGENTWEAVER_AGENT_KINDS: 'scripted,copilot',
      AGENTWEAVER_COPILOT_MODELS: 'claude-sonnet-4.5,gpt-5',
    })
  })

  it.for<[string, EnvironmentName, (value: Loose) => void, string]>([
    [
      'a model server without the proxy',
      'dev',
      (value) => {
        setEgress(value, { mode: 'fqdn' })
        value['models'] = { openaiCompatible: { baseUrl: 'https://a.example/v1', names: ['a'] } }
      },
      'models.openaiCompatible: is there, but egress.mode is fqdn',
    ],
    [
      'a key that is no credential',
      'dev',
      (value) => {
        value['models'] = {
          openaiCompatible: { baseUrl: 'https://a.example/v1', credential: 'other', names: ['a'] },
        }
      },
      'models.openaiCompatible.credential: egress.credentials has no entry other',
    ],
    [
      'a key of each owner that nothing inserts',
      'local',
      (value) => {
        setEgress(value, { mode: 'proxy', proxyAddress: '10.0.0.20' })
        value['models'] = {
          openaiCompatible: {
            baseUrl: 'https://a.example/v1',
            credential: 'openai-compatible',
            names: ['a'],
          },
        }
      },
      'models.openaiCompatible.credential: openai-compatible is the key of each owner, and nothing inserts it',
    ],
    [
      'a key that is a client certificate',
      'dev',
      (value) => {
        value['egress'].credentials = [{ id: 'corp', kind: 'client-certificate' }]
        value['models'] = {
          openaiCompatible: { baseUrl: 'https://a.example/v1', credential: 'corp', names: ['a'] },
        }
      },
      'models.openaiCompatible.credential: corp is a client certificate',
    ],
    [
      'a server without TLS',
      'dev',
      (value) => {
        value['models'] = { openaiCompatible: { baseUrl: 'http://a.example/v1', names: ['a'] } }
      },
      'models.openaiCompatible.baseUrl: ',
    ],
    [
      'no name',
      'dev',
      (value) => {
        value['models'] = { copilot: { names: [] } }
      },
      'models.copilot.names: ',
    ],
    [
      'models of Azure AI without a resource',
      'dev',
      (value) => {
        value['models'] = { foundry: { names: ['gpt-5'] } }
      },
      'models.foundry: is there, but infra.azure.modelHost is missing',
    ],
    [
      'models of Azure AI without the proxy',
      'dev',
      (value) => {
        setEgress(value, { mode: 'fqdn' })
        value['infra'].azure.modelHost = AZURE_AI
        value['models'] = { foundry: { names: ['gpt-5'] } }
      },
      'models.foundry: is there, but egress.mode is fqdn',
    ],
    [
      'a model in mode closed',
      'dev',
      (value) => {
        setEgress(value, { mode: 'closed' })
        value['models'] = { copilot: { names: ['gpt-5'] } }
      },
      'models: names models, but egress.mode is closed',
    ],
  ])('are rejected with %s', ([_what, name, change, message]) => {
    expect(mistakesWith(name, change).join('\n')).toContain(message)
  })
})
