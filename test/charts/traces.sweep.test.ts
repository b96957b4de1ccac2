import { expect, it } from 'vitest'
import { checkReachability } from '../../charts-src/access-matrix/check-reachability.ts'
import { checkTree } from '../../charts-src/checks/check-tree.ts'
import { loadEnvironment } from '../../charts-src/environment/load-environment.ts'
import { readEgressPolicy } from '../../policies/agent/egress/load.ts'
import {
  aTree,
  ENVIRONMENTS,
  type EnvironmentName,
  environmentText,
  mistakesWith,
  objectIn,
} from './fixture.ts'

const SERVICE = 'http://otel-collector.monitoring.svc.cluster.local:4318'
const HOST = 'https://otlp.example.com/tenant'

function environmentWith(name: EnvironmentName, traces: object | undefined) {
  const loaded = loadEnvironment(name, JSON.stringify({ ...JSON.parse(environmentText(name)), traces }))
  if (!loaded.ok) throw new Error(loaded.mistakes.join('\n'))
  return loaded.environment
}

/** What the API gets, and where it may connect. */
function apiOf(traces: object | undefined) {
  const tree = aTree(environmentWith('prod', traces))
  const isNamed = (object: object) => JSON.stringify(object).includes('otel-collector')
  const named = tree.objects.map(({ object }) => object).filter(isNamed)
  const deployment = JSON.stringify(objectIn(tree, 'Deployment', 'agentweaver-api')['spec'])
  const policy = JSON.stringify(objectIn(tree, 'CiliumNetworkPolicy', 'api-egress')['spec'])
  return { deployment, policy, named: named.map(({ kind, metadata }) => `${kind} ${metadata.name}`) }
}

it.each(ENVIRONMENTS)('the tree of %s passes every check with a collector', (name) => {
  for (const collector of [SERVICE, HOST, 'http://collector.elsewhere.svc.cluster.local:4318']) {
    const environment = environmentWith(name, { collector })
    const tree = aTree(environment)
    const objects = tree.objects.map(({ object }) => object)

    expect(checkTree(tree)).toEqual([])
    expect(checkReachability(objects, environment, readEgressPolicy())).toEqual([])
  }
})

it('is reached by the API alone, at its port', () => {
  const service = apiOf({ collector: SERVICE, share: 0.1 })
  const host = apiOf({ collector: HOST })

  expect(service.deployment).toContain(`"OTEL_EXPORTER_OTLP_ENDPOINT","value":"${SERVICE}"`)
  expect(service.deployment).toContain('"OTEL_TRACES_SAMPLER_ARG","value":"0.1"')
  expect(service.policy).toContain('"4318"')
  expect(service.named.toSorted()).toEqual(['CiliumNetworkPolicy api-egress', 'Deployment agentweaver-api'])
  expect(service.policy).toContain('"otel-collector.monitoring.svc.cluster.local"')
  expect(host.policy).toContain('"toFQDNs":[{"matchName":"otlp.example.com"}]')
  expect(host.deployment).not.toContain('OTEL_TRACES_SAMPLER')
})

it('sends no traces by default', () => {
  const { deployment, policy } = apiOf(undefined)

  expect(deployment).not.toContain('OTEL_')
  expect(policy).not.toContain('4318')
})

it.each([
  ['without TLS outside the cluster', 'http://otlp.example.com:4318'],
  ['with a password', 'https://a:b@otlp.example.com'],
  ['an address', 'https://10.0.0.1:4318'],
  ['a name that is not complete', 'http://otel-collector.monitoring:4318'],
  ['a name that programs read as an address', 'https://a.1'],
  ['port 0 of a Service', SERVICE.replace('4318', '0')],
  ['port 0 of a host', 'https://otlp.example.com:0'],
  ['a port that does not exist', 'https://otlp.example.com:99999'],
])('rejects a collector %s', (_what, collector) => {
  expect(mistakesWith('dev', (value) => (value['traces'] = { collector }))).toEqual([
    expect.stringContaining('traces.collector: must be'),
  ])
})
