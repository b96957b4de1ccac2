import { describe, expect, it } from 'vitest'
import { renderEnvironment } from '../../charts-src/tree/render.ts'
import { placedObjects } from '../../charts-src/tree/tree-files.ts'
import { readEgressPolicy } from '../../policies/agent/egress/load.ts'
import { type Loose, loadedWith, mistakesWith, PROXY_SIZE, READER, setEgress } from './fixture.ts'

const EXCHANGE = 'api://AzureADTokenExchange'
const VAULT = 'agentweaver-prod-users.vault.azure.net'

function rendered(change: (value: Loose) => void = () => undefined, policy = readEgressPolicy()) {
  const objects = placedObjects(renderEnvironment(loadedWith('prod', change), policy))
  const textOf = (kind: string, name: string) =>
    JSON.stringify(
      objects.find(({ object }) => object.kind === kind && object.metadata.name === name)?.object,
    )
  return {
    pod: textOf('SandboxTemplate', 'agentweaver-agent'),
    commandPod: textOf('SandboxTemplate', 'agentweaver-command'),
    admission: textOf('ConfigMap', 'agentweaver-admission'),
    destinations: textOf('ConfigMap', 'agentweaver-policy'),
    proxyNetwork: JSON.stringify(objects.filter(({ path }) => path.includes('agentweaver-egress/'))),
  }
}

const without = (part: string): void => expect(part).not.toMatch(/AzureADTokenExchange|_AZURE_|_VAULT_/)

describe('AgentHost in a cluster on Azure', () => {
  it('has no Azure identity if the egress proxy inserts the tokens of owners', () => {
    const { pod, commandPod, admission, destinations } = rendered()

    for (const part of [pod, commandPod, admission]) without(part)
    expect(destinations).toContain('api.github.com')
    expect(destinations).not.toContain(VAULT)
  })

  it('reads the vault itself in mode fqdn', () => {
    const { pod, commandPod, admission } = rendered((value) => setEgress(value, { mode: 'fqdn' }))

    expect(pod).toContain(EXCHANGE)
    expect(pod).toContain(VAULT)
    expect(pod).toContain(READER)
    expect(admission).toContain(EXCHANGE)
    without(commandPod)
  })

  it('needs an identity for that', () => {
    const mistakes = mistakesWith('prod', (value) => {
      setEgress(value, { mode: 'fqdn' })
      delete value['infra'].azure.identities.agentHost
    })

    expect(mistakes).toEqual([
      expect.stringMatching(/^infra\.azure\.identities\.agentHost: is missing, and in mode fqdn/),
    ])
  })

  it('stays without an identity in mode proxy, also if the stack has one', () => {
    const { pod, admission, destinations } = rendered((value) => {
      value['infra'].azure.identities.agentHost = { clientId: READER }
    })

    for (const part of [pod, admission]) without(part)
    expect(destinations).not.toContain(VAULT)
  })

  it('needs a size of the container that inserts tokens', () => {
    const mistakes = mistakesWith('prod', (value) => {
      value['sizes'].egressProxy = PROXY_SIZE
    })

    expect(mistakes).toEqual([
      'sizes.egressProxy.credentials: is missing, and infra.azure names a vault, from which this container inserts credentials of owners',
    ])
  })

  it('has no Azure identity without agents of kind copilot', () => {
    without(
      rendered((value) => {
        setEgress(value, { mode: 'fqdn' })
        value['models'] = {}
      }).pod,
    )
  })

  it('leaves a vault with a private address to the egress proxy', () => {
    const { classes } = readEgressPolicy()
    const agent = classes.agent.map((one) =>
      one.host === '${user-token-vault}' ? { ...one, addresses: ['10.99.0.4'] } : one,
    )
    const { proxyNetwork, destinations } = rendered(undefined, { classes: { ...classes, agent } })

    expect(proxyNetwork).toContain('10.99.0.4/32')
    expect(destinations).not.toContain('10.99.0.4')
  })
})
