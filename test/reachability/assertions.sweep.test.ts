import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ROWS } from '../../charts-src/access-matrix/assertion.ts'
import { assertions } from '../../charts-src/access-matrix/assertions.ts'
import { checkReachability, worldOf } from '../../charts-src/access-matrix/check-reachability.ts'
import { reachabilityPage } from '../../charts-src/access-matrix/page.ts'
import { addNetwork } from '../../charts-src/apps/network.ts'
import { loadEnvironment } from '../../charts-src/environment/load-environment.ts'
import type { Environment } from '../../charts-src/environment/schema.ts'
import type { KubeObject } from '../../charts-src/kube-object.ts'
import { chartObjects } from '../../charts-src/tree/chart-objects.ts'
import { readEgressPolicy } from '../../policies/agent/egress/load.ts'

const FOLDER = join(import.meta.dirname, '../../environments')
const NAMES = readdirSync(FOLDER).flatMap((file) =>
  file.endsWith('.json') ? [file.slice(0, -'.json'.length)] : [],
)
const MODES = ['fqdn', 'closed', 'proxy'] as const
const EGRESS = readEgressPolicy()

function environmentNamed(name: string, mode: Environment['egress']['mode'] = 'fqdn'): Environment {
  const loaded = loadEnvironment(name, readFileSync(join(FOLDER, `${name}.json`), 'utf8'))
  if (!loaded.ok) throw new Error(loaded.mistakes.join('\n'))
  return { ...loaded.environment, egress: { mode } }
}

describe.each(NAMES.flatMap((name) => MODES.map((mode) => [name, mode] as const)))(
  '%s, mode %s',
  (name, mode) => {
    const environment = environmentNamed(name, mode)
    const objects = chartObjects((chart) => addNetwork(chart, environment, EGRESS))

    it('keeps every assertion', () => {
      expect(checkReachability(objects, environment, EGRESS)).toEqual([])
    })

    it('asks something of every row that has a meaning there', () => {
      const outcome = worldOf(objects, environment, EGRESS)
      const rows = new Set(outcome.ok ? [...assertions(outcome.world)].map(({ row }) => row) : [])

      const meaningless = mode === 'closed' ? ['rebinding'] : []
      expect([...rows].toSorted()).toEqual(
        Object.keys(ROWS)
          .filter((row) => !meaningless.includes(row))
          .toSorted(),
      )
    })
  },
)

/** Its namespace is excluded: no policy selects a pod of another one. */
function withoutPods(policy: KubeObject): KubeObject {
  const spec = policy['spec'] as { endpointSelector: { matchExpressions?: object[] } }
  const { endpointSelector } = spec
  const elsewhere = {
    key: 'k8s:io.kubernetes.pod.namespace',
    operator: 'NotIn',
    values: [policy.metadata.namespace ?? ''],
  }
  const matchExpressions = [...(endpointSelector.matchExpressions ?? []), elsewhere]
  return { ...policy, spec: { ...spec, endpointSelector: { ...endpointSelector, matchExpressions } } }
}

describe('a mistake in a rendered tree', () => {
  const environment = environmentNamed('dev')
  const objects = chartObjects((chart) => addNetwork(chart, environment, EGRESS))
  const sandboxes = 'agentweaver-sandboxes'
  const policy = (namespace: string, spec: object): KubeObject => ({
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    metadata: { name: 'mistake', namespace },
    spec,
  })

  it.each<[string, readonly KubeObject[], string]>([
    [
      'a broad allow',
      [...objects, policy(sandboxes, { podSelector: {}, policyTypes: ['Egress'], egress: [{}] })],
      'sandbox of class agent → any other address outside, leaving: nothing, but is everything',
    ],
    [
      'the Internet for one port',
      [
        ...objects,
        policy(sandboxes, {
          podSelector: {},
          policyTypes: ['Egress'],
          egress: [{ to: [{ ipBlock: { cidr: '0.0.0.0/0' } }], ports: [{ port: 443 }] }],
        }),
      ],
      'sandbox of class command → any other address outside, leaving: nothing, but is TCP 443',
    ],
    [
      'a policy that is missing',
      objects.filter(({ metadata }) => metadata.name !== 'sandbox-never'),
      'still does not reach',
    ],
    [
      'a policy that the agent refuses',
      [
        ...objects,
        {
          apiVersion: 'cilium.io/v2',
          kind: 'CiliumNetworkPolicy',
          metadata: { name: 'mistake', namespace: sandboxes },
          spec: {
            endpointSelector: {},
            egress: [{ toFQDNs: [{ matchName: 'a.example.com' }], toCIDR: ['1.1.1.1'] }],
          },
        },
      ],
      'gitops/dev/network/agentweaver-sandboxes/CiliumNetworkPolicy.mistake.yaml: spec.egress[0]: refused by the agent',
    ],
    [
      'a workload without an assertion',
      [
        ...objects,
        {
          apiVersion: 'apps/v1',
          kind: 'Deployment',
          metadata: { name: 'surprise', namespace: 'agentweaver' },
          spec: { template: { metadata: { labels: {} }, spec: { containers: [] } } },
        },
      ],
      'knows no workload agentweaver/surprise',
    ],
    [
      'a range of the cluster that is in no deny rule',
      objects.map((object) =>
        JSON.parse(JSON.stringify(object).replaceAll('{"cidr":"10.244.0.0/16"}', '{"cidr":"10.245.0.0/16"}')),
      ),
      '10.244.0.0/16 is in a deny rule of the sandbox of class agent, but no policy names it in egressDeny',
    ],
    [
      'deny rules of a policy that selects no pods',
      objects.map((object) => (object.metadata.name === 'sandbox-never' ? withoutPods(object) : object)),
      '10.244.0.0/16 is in a deny rule of the sandbox of class agent, but no policy names it in egressDeny',
    ],
  ])('is reported: %s', (_what, broken, message) => {
    expect(checkReachability(broken, environment, EGRESS)).toContainEqual(expect.stringContaining(message))
  })

  it('is reported: a vault of the control plane instead of the vault of the users', () => {
    const { azure } = environment.infra
    if (!azure) throw new Error('dev is on Azure')
    const vaults = { ...azure.vaults, userTokens: azure.vaults.controlPlane }
    const wrong = { ...environment, infra: { ...environment.infra, azure: { ...azure, vaults } } }

    expect(
      checkReachability(
        chartObjects((chart) => addNetwork(chart, wrong, EGRESS)),
        wrong,
        EGRESS,
      ),
    ).toContainEqual(
      expect.stringContaining(
        'never reaches agentweaver-dev-cp.vault.azure.net, but the name is listed for it',
      ),
    )
  })

  it('reports a workload without the label that policies select by', () => {
    const relabelled: KubeObject = {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: { name: 'agentweaver-api', namespace: 'agentweaver' },
      spec: { template: { metadata: { labels: { app: 'api' } }, spec: { containers: [] } } },
    }

    expect(checkReachability([...objects, relabelled], environment, EGRESS)).toContainEqual(
      expect.stringContaining('API → sandbox of class agent, leaving: TCP 8088, but is closed'),
    )
  })
})

describe('the page', () => {
  const environment = environmentNamed('dev')
  const page = reachabilityPage(
    chartObjects((chart) => addNetwork(chart, environment, EGRESS)),
    environment,
    EGRESS,
  )

  it('says for each pair which ports are open, and by which rule', () => {
    expect(page).toContain(
      '| API | sandbox of class agent | TCP 8088 | `agentweaver/api-to-sandboxes` spec.egress[0] | `agentweaver-sandboxes/sandbox-from-api` spec.ingress[0] |',
    )
    expect(page).toMatch(/\| gateway of previews \| TCP 3000–8087, 8089–9000 \|/)
  })

  it('says which names are reached, and that no other is', () => {
    expect(page).toContain('| `api.github.com` | TCP 443 | · |')
    expect(page).toContain('| any other name | · | · |')
  })

  it('is the same however often it is rendered', () => {
    expect(
      reachabilityPage(
        chartObjects((chart) => addNetwork(chart, environment, EGRESS)),
        environment,
        EGRESS,
      ),
    ).toBe(page)
  })

  it('reports the reason if the policies cannot be evaluated', () => {
    const unknown = {
      apiVersion: 'cilium.io/v3',
      kind: 'CiliumNetworkPolicy',
      metadata: { name: 'x', namespace: 'y' },
    }

    expect(reachabilityPage([unknown], environment, EGRESS)).toContain(
      'Not computed:\n\n- CiliumNetworkPolicy y/x, kind',
    )
  })
})
