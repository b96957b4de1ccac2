import { describe, expect, it } from 'vitest'
import { loadEnvironment } from '../../charts-src/environment/load-environment.ts'
import type { Environment } from '../../charts-src/environment/schema.ts'
import { allowlist } from '../../policies/agent/egress/allowlist.ts'
import { loadEgressPolicy, readEgressPolicy } from '../../policies/agent/egress/load.ts'
import { resolveEgress } from '../../policies/agent/egress/resolve.ts'
import { parseRepositorySettings } from '../../policies/agent/settings.ts'
import { aTree, environmentText, mistakesWith, objectIn, setEgress } from './fixture.ts'

// biome-ignore lint/suspicious/noExplicitAny: objects as they are rendered
type Fields = any

function changed(change: (value: Fields) => void): Environment {
  const value = JSON.parse(environmentText('dev'))
  change(value)
  const loaded = loadEnvironment('dev', JSON.stringify(value))
  if (!loaded.ok) throw new Error(loaded.mistakes.join('\n'))
  return loaded.environment
}
const inMode = (egress: object, ceiling: object = {}): Environment =>
  changed((value) => {
    setEgress(value, egress)
    value.ceiling = ceiling
  })
const PROXY = { mode: 'proxy', proxyAddress: '10.0.0.20' }
const filesOf = (environment: Environment): Readonly<Record<string, string>> =>
  objectIn(aTree(environment), 'ConfigMap', 'agentweaver-policy')['data']
const apiPod = (environment: Environment): Fields =>
  objectIn(aTree(environment), 'Deployment', 'agentweaver-api')['spec'].template
const apiEnv = (environment: Environment): Fields =>
  Object.fromEntries(
    apiPod(environment).spec.containers[0].env.map(({ name, value }: Fields) => [name, value]),
  )

describe("the API's destinations of sandboxes", () => {
  it('are the classes of the policy file', () => {
    const wanted = resolveEgress(readEgressPolicy(), {})

    const read = resolveEgress(loadEgressPolicy(filesOf(inMode(PROXY))['egress.yaml'] ?? ''), {})

    for (const kind of ['agent', 'command'] as const) {
      expect(allowlist(read, kind, 'proxy')).toEqual(allowlist(wanted, kind, 'proxy'))
      expect(allowlist(read, kind, 'proxy').map(({ host }) => host)).toContain('registry.npmjs.org')
    }
  })

  it('are at the path that the API reads, and the port for the proxy is open', () => {
    const { spec } = apiPod(inMode(PROXY))
    const [container] = spec.containers

    expect(apiEnv(inMode(PROXY))).toMatchObject({
      AGENTWEAVER_EGRESS_FILE: '/etc/agentweaver/policy/egress.yaml',
      AGENTWEAVER_EGRESS_CONTROL_PORT: '8082',
    })
    expect(container.volumeMounts).toContainEqual({
      name: 'policy',
      mountPath: '/etc/agentweaver/policy',
      readOnly: true,
    })
    expect(spec.volumes).toContainEqual({
      name: 'policy',
      configMap: { name: 'agentweaver-policy', defaultMode: 0o444 },
    })
    expect(container.ports).toContainEqual({ name: 'egress', containerPort: 8082 })
  })

  it.each(['fqdn', 'closed'])('are not set in mode %s, where no proxy reads them', (mode) => {
    const env = apiEnv(inMode({ mode }))

    expect(filesOf(inMode({ mode }))).not.toHaveProperty(['egress.yaml'])
    expect(env).not.toHaveProperty('AGENTWEAVER_EGRESS_FILE')
    expect(env).not.toHaveProperty('AGENTWEAVER_EGRESS_CONTROL_PORT')
  })
})

describe("the operator's ceiling", () => {
  it('is what the environment file says', () => {
    const ceiling = { network_enabled: true, destructive_command_patterns: ['terraform destroy'] }
    const environment = inMode({ mode: 'fqdn' }, ceiling)

    expect(parseRepositorySettings(filesOf(environment)['ceiling.yaml'] ?? '')).toEqual({
      ok: true,
      patch: ceiling,
    })
    expect(apiEnv(environment)['AGENTWEAVER_CEILING_FILE']).toBe('/etc/agentweaver/policy/ceiling.yaml')
  })

  it('replaces the pods of the API when it changes, because they read it when they start', () => {
    const digest = (ceiling: object) => apiPod(inMode({ mode: 'fqdn' }, ceiling)).metadata.annotations

    expect(digest({ network_enabled: true })).not.toEqual(digest({}))
    expect(digest({})).toEqual(digest({}))
  })

  it.each<[string, object, string]>([
    ['an unknown key', { network: true }, 'ceiling: Unrecognized key: "network"'],
    ['a folder of the machine', { allowed_repository_roots: ['/srv'] }, 'ceiling: Unrecognized key'],
    ['direct', { direct: true }, 'ceiling: Unrecognized key: "direct"'],
    [
      'a pattern that is none',
      { destructive_command_patterns: ['('] },
      'ceiling.destructive_command_patterns.0: ',
    ],
  ])('is rejected with %s', (_what, ceiling, message) => {
    expect(mistakesWith('dev', (value) => (value['ceiling'] = ceiling))).toEqual([
      expect.stringContaining(message),
    ])
  })
})
