import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { addNetwork } from '../../charts-src/apps/network.ts'
import { loadEnvironment } from '../../charts-src/environment/load-environment.ts'
import type { Environment } from '../../charts-src/environment/schema.ts'
import type { KubeObject } from '../../charts-src/kube-object.ts'
import { chartObjects } from '../../charts-src/tree/chart-objects.ts'
import { loadEgressPolicy, readEgressPolicy } from '../../policies/agent/egress/load.ts'
import { isPolicy } from '../../reachability/compile-policies.ts'

const EGRESS = readEgressPolicy()

function environmentNamed(name: string, mode: Environment['egress']['mode'] = 'fqdn'): Environment {
  const file = join(import.meta.dirname, `../../environments/${name}.json`)
  const loaded = loadEnvironment(name, readFileSync(file, 'utf8'))
  if (!loaded.ok) throw new Error(loaded.mistakes.join('\n'))
  return { ...loaded.environment, egress: { mode } }
}

const render = (name: string, mode?: Environment['egress']['mode'], policy = EGRESS) =>
  chartObjects((chart) => addNetwork(chart, environmentNamed(name, mode), policy))
const named = (objects: readonly KubeObject[], name: string) =>
  objects.filter(({ metadata }) => metadata.name === name)

/** A field of the one object of a name. */
function fieldOf<T>(objects: readonly KubeObject[], name: string, field: string): T {
  const [object] = named(objects, name)
  if (object === undefined) throw new Error(`nothing is called ${name}`)
  return object[field] as T
}

/** Everything that selects pods of the namespace a policy is in. */
function subjectLabels(object: KubeObject): string[] {
  const spec = object['spec'] as Readonly<Record<string, Selector | undefined>>
  const { matchLabels = {}, matchExpressions = [] } = spec['podSelector'] ?? spec['endpointSelector'] ?? {}
  return [...Object.keys(matchLabels), ...matchExpressions.map(({ key }) => key)]
}
interface Selector {
  readonly matchLabels?: Readonly<Record<string, string>>
  readonly matchExpressions?: readonly { readonly key: string }[]
}

describe('the rendered policies', () => {
  it('close each of our namespaces in both directions, also in a preview slice', () => {
    const base = named(render('prod'), 'default-deny')
    const preview = named(render('pr-example'), 'default-deny')

    expect(base.map(({ metadata }) => metadata.namespace)).toEqual([
      'agentweaver',
      'agentweaver-sandboxes',
      'agentweaver-egress',
    ])
    expect(preview.map(({ metadata }) => metadata.namespace)).toEqual([
      'aw-pr-example-50d858',
      'aw-pr-example-50d858-sandboxes',
      'aw-pr-example-50d858-egress',
    ])
    for (const { spec } of [...base, ...preview] as { spec?: unknown }[])
      expect(spec).toEqual({ podSelector: {}, policyTypes: ['Ingress', 'Egress'] })
  })

  it('belong only to namespaces of the same slice', () => {
    const namespaces = new Set(render('pr-example').map(({ metadata }) => metadata.namespace))

    expect([...namespaces].every((namespace) => namespace?.startsWith('aw-pr-example-50d858'))).toBe(true)
    expect(JSON.stringify(render('pr-example'))).not.toMatch(/"agentweaver(?:-sandboxes|-egress)?"/)
  })

  it.each(['fqdn', 'closed', 'proxy'] as const)(
    'select sandboxes by their class from birth and by nothing that a claim writes, in mode %s',
    (mode) => {
      const objects = render('prod', mode).filter(
        (object) => isPolicy(object) && object.metadata.namespace === 'agentweaver-sandboxes',
      )

      const keys = new Set(objects.flatMap(subjectLabels))
      expect([...keys]).toEqual(['agentweaver.io/class'])
    },
  )

  it('never list a wildcard of every name, for lookups or for connections', () => {
    for (const mode of ['fqdn', 'proxy'] as const)
      expect(JSON.stringify(render('prod', mode))).not.toMatch(/"matchPattern":"\*+"/)
  })

  it('list for lookups exactly the names that are connected to', () => {
    const { egress } = fieldOf<{ egress: readonly object[] }>(render('prod'), 'agent-egress', 'spec')
    const lookups = JSON.stringify(egress[0]).match(/"matchName":"[^"]+"/g)
    const connections = JSON.stringify(egress[1]).match(/"matchName":"[^"]+"/g)

    expect(lookups?.length).toBeGreaterThan(3)
    expect(lookups).toEqual(connections)
  })

  it('give a class that has no name it could hold no egress at all', () => {
    expect(named(render('prod'), 'command-egress')).toEqual([])
    expect(JSON.stringify(render('prod'))).not.toContain('registry.npmjs.org')
  })

  it('omit a destination with a restriction that a name cannot express, unless this is allowed', () => {
    const text = (fqdn: string) => `apiVersion: agentweaver.io/v1
kind: EgressPolicy
name: test
classes:
  agent:
    - { host: pypi.org, ports: [443], mode: read-only, why: packages of Python${fqdn} }
    - { host: '*.npmjs.org', ports: [443, 8443], mode: full, why: packages of Node }
  command: []
`
    const strict = JSON.stringify(render('local', 'fqdn', loadEgressPolicy(text(''))))
    const told = JSON.stringify(render('local', 'fqdn', loadEgressPolicy(text(', fqdn: allow'))))

    expect(strict).not.toContain('pypi.org')
    expect(told).toContain('"matchName":"pypi.org"')
    expect(strict).toContain('"matchPattern":"*.npmjs.org"')
    expect(strict).toContain('{"port":"8443","protocol":"TCP"}')
  })

  it('open nothing but the proxy to sandboxes in mode proxy, and no resolver', () => {
    const objects = render('prod', 'proxy').filter(({ metadata }) =>
      /^(?:agent|command)-egress$/.test(metadata.name),
    )

    expect(objects.map(({ kind }) => kind)).toEqual(['NetworkPolicy', 'NetworkPolicy'])
    expect(JSON.stringify(objects)).not.toMatch(/kube-dns|"port":53|"53"/)
  })

  it('let the egress proxy reach the internet, and nothing that is not there', () => {
    const { egress } = fieldOf<{ egress: readonly Readonly<Record<string, object>>[] }>(
      render('prod', 'proxy'),
      'proxy-egress',
      'spec',
    )
    const [api, resolver, internet] = egress.map((rule) => JSON.stringify(rule))

    expect(egress).toHaveLength(3)
    expect(api).toContain('"k8s:app.kubernetes.io/component":"api"')
    expect(api).toContain('"8082"')
    expect(resolver).toContain('kube-dns')
    expect(internet).toContain('"cidr":"0.0.0.0/0","except":["169.254.0.0/16"')
    expect(internet).not.toMatch(/"port":"53"|"port":"853"/)
  })

  it('open the port of the API for replicas of the proxy only in mode proxy', () => {
    const ingress = (mode: Environment['egress']['mode']) =>
      JSON.stringify(fieldOf(render('prod', mode), 'api-ingress', 'spec'))

    expect(ingress('proxy')).toContain('8082')
    expect(ingress('fqdn')).not.toContain('8082')
  })

  it('name no vault, login host or model where the environment has none', () => {
    expect(JSON.stringify(render('local'))).not.toMatch(/azure|microsoftonline|\$\{/)
  })

  it('split the preview ports around the port of orders', () => {
    const [policy] = named(render('prod'), 'sandbox-from-previews')
    const text = JSON.stringify(policy)

    expect(text).toContain('{"endPort":8087,"port":3000,"protocol":"TCP"}')
    expect(text).toContain('{"endPort":9000,"port":8089,"protocol":"TCP"}')
    expect(text).not.toContain('8088')
  })
})

it('is refused where the environment names a vault that all tenants share', () => {
  const environment = environmentNamed('dev')
  const { azure } = environment.infra
  if (!azure) throw new Error('dev is on Azure')
  const vaults = { ...azure.vaults, userTokens: { name: 'x-vault', host: 'vault.azure.net' } }
  const wrong = { ...environment, infra: { ...environment.infra, azure: { ...azure, vaults } } }

  expect(() => chartObjects((chart) => addNetwork(chart, wrong, EGRESS))).toThrow(
    'is shared by all customers of its provider',
  )
})
