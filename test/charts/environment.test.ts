import { describe, expect, it } from 'vitest'
import { loadEnvironment } from '../../charts-src/environment/load-environment.ts'
import { ENVIRONMENTS, environmentText, type Loose, mistakesWith, PROXY_SIZE } from './fixture.ts'

describe('an environment file', () => {
  it.each(ENVIRONMENTS)('is without a mistake as committed: %s', (name) => {
    expect(loadEnvironment(name, environmentText(name))).toMatchObject({ ok: true })
  })

  it('reports all mistakes of all sections at once', () => {
    const mistakes = mistakesWith('dev', (value) => {
      value['isolation'] = 'runc'
      value['images'].api = 'agentweaverdev.azurecr.io/agentweaver/api:latest'
      value['infra'].network.podCidrs = ['10.0.5.0/16']
      value['infra'].database.port = 70_000
      value['sizes'].sandboxes.agent.toolbox.cpuMilis = 3
      value['sizes'].sandboxes.quota.claims = 'many'
      value['egres'] = value['egress']
      delete value['egress']
    })

    expect(mistakes).toEqual([
      expect.stringContaining('egres: is not a section'),
      expect.stringContaining('isolation: '),
      expect.stringContaining('egress: is missing'),
      expect.stringContaining('infra.database.port: '),
      expect.stringContaining('sizes.sandboxes.agent.toolbox: Unrecognized key: "cpuMilis"'),
      expect.stringContaining('sizes.sandboxes.quota.claims: '),
      expect.stringContaining('images.api: must be <registry>/<name>@sha256'),
    ])
  })

  it('checks the rules of valid sections even if other sections have typos', () => {
    const mistakes = mistakesWith('dev', (value) => {
      value['isolation'] = 'runc'
      value['infra'].network.podCidrs = ['10.0.5.0/16']
    })

    expect(mistakes).toEqual([
      expect.stringContaining('isolation: '),
      'infra.network.podCidrs: 10.0.5.0/16 has bits behind its prefix',
      'infra.network.podCidrs: 10.0.5.0/16 overlaps 10.0.0.0/16 of infra.network.serviceCidrs',
    ])
  })

  it.each<[string, (value: Loose) => void, string]>([
    [
      'a proxy without an address',
      (value) => (value['egress'] = { mode: 'proxy' }),
      'egress.proxyAddress: is missing, and in mode proxy sandboxes have no resolver to find the proxy by',
    ],
    [
      'a proxy at an address that no Service has',
      (value) => (value['egress'] = { mode: 'proxy', proxyAddress: '198.51.100.7' }),
      'egress.proxyAddress: 198.51.100.7 is in none of infra.network.serviceCidrs',
    ],
    [
      'a proxy without sizes',
      (value) => delete value['sizes'].egressProxy,
      'sizes.egressProxy: is missing, and the mode is proxy',
    ],
    [
      'sizes of a proxy that is not used',
      (value) => (value['egress'] = { mode: 'fqdn' }),
      'sizes.egressProxy: is there, but the mode is fqdn',
    ],
    [
      'one replica of a proxy, with which every restart cuts the network',
      (value) => {
        value['egress'] = { mode: 'proxy', proxyAddress: '10.0.0.20' }
        value['sizes'].egressProxy = { ...PROXY_SIZE, replicas: 1 }
      },
      'sizes.egressProxy.replicas: ',
    ],
    [
      'more replicas of a proxy than its maximum',
      (value) => {
        value['egress'] = { mode: 'proxy', proxyAddress: '10.0.0.20' }
        value['sizes'].egressProxy = { ...PROXY_SIZE, replicas: 5 }
      },
      'sizes.egressProxy.replicas: is above sizes.egressProxy.maxReplicas',
    ],
    [
      'an address of a proxy that is not used',
      (value) => (value['egress'] = { mode: 'closed', proxyAddress: '10.0.0.20' }),
      'egress.proxyAddress: is there, but the mode is closed',
    ],
    [
      'another name than its file',
      (value) => (value['name'] = 'prod'),
      'name: is prod, but the file is dev.json',
    ],
    [
      'the slice of a preview under the name of a base',
      (value) => (value['slice'] = { kind: 'preview', slug: 'example-50d858' }),
      'slice: a preview, and nothing else, has a name that begins with pr-',
    ],
    [
      'a section that would be everybody’s',
      (value) => Object.defineProperty(value, '__proto__', { value: {}, enumerable: true }),
      '__proto__: is not a section',
    ],
    [
      'a private key',
      (value) => (value['keys'].jwks.keys[0].d = 'A'.repeat(43)),
      'keys.jwks.keys.0: holds a private key ("d"): take it out of this file and rotate it',
    ],
    [
      'an image of another registry',
      (value) => (value['images'].api = `ghcr.io/somebody/api@sha256:${'a'.repeat(64)}`),
      'is not from agentweaverdev.azurecr.io',
    ],
    [
      'a tag together with a digest',
      (value) => (value['images'].api = value['images'].api.replace('@', ':1@')),
      'images.api: must be <registry>/<name>@sha256',
    ],
    [
      'a database among the pods',
      (value) => (value['infra'].database.cidr = '10.244.3.0/28'),
      'infra.database.cidr: 10.244.3.0/28 overlaps 10.244.0.0/16 of infra.network.podCidrs',
    ],
    [
      'a range that is written as IPv6 and means IPv4',
      (value) => (value['infra'].network.nodeCidrs = ['::ffff:10.40.0.0/118']),
      'infra.network.nodeCidrs: ::ffff:10.40.0.0/118 is no range that policies know',
    ],
    [
      'both kinds of certificates',
      (value) => (value['infra'].gateway.tlsOptions = { a: 'b' }),
      'infra.gateway: needs exactly one of tlsOptions and tlsSecret',
    ],
    [
      'previews in the zone of the API',
      (value) => (value['infra'].dns.previewZone = value['infra'].dns.zone),
      'infra.dns.previewZone: must not be infra.dns.zone',
    ],
    [
      'a volume without a storage',
      (value) => {
        value['sizes'].sandboxes.workspace = 'volume'
        delete value['infra'].storage
      },
      'sizes.sandboxes.workspace: is volume, but infra.storage is missing',
    ],
    [
      'Kata without Azure',
      (value) => {
        delete value['infra'].azure
      },
      'infra.azure: is missing',
    ],
    [
      'a request above its limit',
      (value) => (value['sizes'].api.container.cpuMillis = 9000),
      'sizes.api.container.cpuMillis: is above maxCpuMillis',
    ],
    [
      'fewer replicas at most than at least',
      (value) => (value['sizes'].api.maxReplicas = 1),
      'sizes.api.replicas: is above sizes.api.maxReplicas',
    ],
    [
      'more runs than claims',
      (value) => (value['sizes'].runs.maxRuns = 17),
      'sizes.runs.maxRuns: is 17, but sizes.sandboxes.quota.claims is 16',
    ],
    [
      'more launches than runs',
      (value) => (value['sizes'].runs.maxLaunches = 17),
      'sizes.runs.maxLaunches: is above sizes.runs.maxRuns',
    ],
    [
      'a longer queue for one owner than for all',
      (value) => (value['sizes'].runs.maxQueued = 999),
      'sizes.runs.maxQueuedPerOwner: is above sizes.runs.maxQueued',
    ],
    [
      'a quota below the pools',
      (value) => (value['sizes'].sandboxes.quota.memoryMib = 40_000),
      'sizes.sandboxes.quota.memoryMib: is 40000, but the pools and 16 claims need 45312, overhead included',
    ],
    [
      'a quota that forgets the overhead',
      (value) => (value['sizes'].sandboxes.overhead.memoryMib = 600),
      'sizes.sandboxes.quota.memoryMib: is 45312, but the pools and 16 claims need 52536',
    ],
    [
      'too few pods',
      (value) => (value['sizes'].sandboxes.quota.pods = 20),
      'sizes.sandboxes.quota.pods: is 20',
    ],
    [
      'fewer nodes at most than at least',
      (value) => (value['infra'].sandboxNodes.min = 9),
      'infra.sandboxNodes.min: is above infra.sandboxNodes.max',
    ],
    [
      'a break-glass group that no token of Entra names',
      (value) => (value['gitops'].breakGlassGroup = 'agentweaver-break-glass'),
      'gitops.breakGlassGroup: is agentweaver-break-glass, and tokens of Entra name groups by object id',
    ],
    [
      'a control plane that cannot roll out',
      (value) => (value['sizes'].controlPlane.quota.memoryMib = 2048),
      'sizes.controlPlane.quota.memoryMib: is 2048, but the API and the Job before it need 2816',
    ],
  ])('is refused with %s', (_, change, message) => {
    expect(mistakesWith('dev', change)).toContainEqual(expect.stringContaining(message))
  })

  it('of a preview cannot render the base of a cluster', () => {
    const mistakes = mistakesWith('pr-example', (value) => {
      value['slice'] = { kind: 'base' }
    })

    expect(mistakes).toEqual(['slice: a preview, and nothing else, has a name that begins with pr-'])
  })

  it('is refused when a key stands twice, since only the second would count', () => {
    const text = environmentText('dev').replace(
      '"isolation": "kata",',
      '"isolation": "kata",\n"isolation": "none",',
    )

    expect(loadEnvironment('dev', text)).toEqual({ ok: false, mistakes: ['line 7: a key stands twice'] })
  })

  it.each(['', '[]', 'null', '{', '"dev"', '{}'])('is refused as a whole when it holds %j', (text) => {
    expect(loadEnvironment('dev', text)).toMatchObject({ ok: false })
  })
})
