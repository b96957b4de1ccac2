import { expect, it } from 'vitest'
import { checkReachability } from '../../charts-src/access-matrix/check-reachability.ts'
import { loadEnvironment } from '../../charts-src/environment/load-environment.ts'
import { ALL_METADATA_RANGES, FORBIDDEN_EVERYWHERE } from '../../charts-src/network/forbidden.ts'
import { forbiddenEndpoints, privateEndpoints } from '../../charts-src/network/private-endpoints.ts'
import { renderEnvironment } from '../../charts-src/tree/render.ts'
import { placedObjects } from '../../charts-src/tree/tree-files.ts'
import {
  type EgressPolicy,
  loadEgressPolicy,
  readEgressPolicyText,
} from '../../policies/agent/egress/load.ts'
import { resolveEgress } from '../../policies/agent/egress/resolve.ts'
import { covers, parseRange } from '../../reachability/address.ts'
import { NEVER } from '../../runtime/egress/address-ranges.ts'
import { environmentText, PROXY_SIZE } from './fixture.ts'

// biome-ignore lint/suspicious/noExplicitAny: objects as they are rendered
type Fields = any

function environment(mode = 'proxy') {
  const value = JSON.parse(environmentText('local'))
  value.egress = mode === 'proxy' ? { mode, proxyAddress: '10.96.0.128' } : { mode }
  if (mode === 'closed') delete value.models
  if (mode === 'proxy') value.sizes.egressProxy = PROXY_SIZE
  else delete value.sizes.egressProxy
  const loaded = loadEnvironment('local', JSON.stringify(value))
  if (!loaded.ok) throw new Error(loaded.mistakes.join('\n'))
  return loaded.environment
}

/** The list of this repository with one more entry. */
const policyWith = (addresses: string): EgressPolicy =>
  loadEgressPolicy(
    `${readEgressPolicyText().trimEnd()}\n    - { host: packages.corp.example.com, ports: [443, 8443], mode: full, addresses: ${addresses}, why: a registry of the company }\n`,
  )

const endpoints = (addresses: string, mode?: string) =>
  privateEndpoints(environment(mode), resolveEgress(policyWith(addresses), {}))
const faults = (addresses: string) =>
  forbiddenEndpoints(environment(), resolveEgress(policyWith(addresses), {}))

it('opens the private addresses of an entry to the proxy, at its ports, and nothing else', () => {
  const policy = policyWith('[10.20.0.0/16, 192.168.7.7]')
  const objects = placedObjects(renderEnvironment(environment(), policy)).map(({ object }) => object)

  const found = objects.find(({ metadata }) => metadata.name.endsWith('proxy-egress'))
  const { egress, egressDeny }: Fields = found?.['spec'] ?? {}
  const ports = [443, 8443].map((port) => ({ port: String(port), protocol: 'TCP' }))
  expect(egress).toContainEqual({ toCIDRSet: [{ cidr: '10.20.0.0/16' }], toPorts: [{ ports }] })
  expect(egress).toContainEqual({ toCIDRSet: [{ cidr: '192.168.7.7/32' }], toPorts: [{ ports }] })
  expect(egressDeny[0].toCIDRSet).toContainEqual({ cidr: '10.0.0.0/8', except: ['10.20.0.0/16'] })
  expect(egressDeny[0].toCIDRSet).toContainEqual({ cidr: '192.168.0.0/16', except: ['192.168.7.7/32'] })
  expect(egressDeny[0].toCIDRSet).toContainEqual({ cidr: '172.16.0.0/12' })
  // Every other forbidden address is closed, and sandboxes reach none.
  expect(checkReachability(objects, environment(), policy)).toEqual([])
})

it('opens nothing for public addresses, and nothing in another mode', () => {
  expect(endpoints('[198.51.100.60]')).toEqual([])
  expect(endpoints('[10.20.0.0/16]', 'closed')).toEqual([])
  expect(endpoints('[10.20.0.0/16]')).toHaveLength(1)
})

it.for([
  ['a Service', '[10.96.0.10]', '10.96.0.10/32 of packages.corp.example.com overlaps 10.96.0.0/16'],
  ['a range with pods', '[10.0.0.0/9]', 'overlaps'],
  ['a metadata service', '[169.254.169.254]', 'has metadata addresses'],
  ['a metadata service with a private address', '[100.100.100.200]', 'has metadata addresses'],
  ['a metadata service among special addresses', '[192.0.0.192]', 'has metadata addresses'],
  ['a private range with a metadata service', "['fd00::/16']", 'has metadata addresses'],
  ['the internet and private addresses', '[0.0.0.0/1]', 'has metadata addresses'],
] as const)('refuses %s', ([_what, addresses, message]) => {
  expect(faults(addresses)).toEqual([expect.stringContaining(message)])
  expect(endpoints(addresses)).toEqual([])
})

it.for(ALL_METADATA_RANGES)('lets neither the proxy nor a sandbox reach %s', (cidr) => {
  const range = parseRange(cidr)
  const forbidden = FORBIDDEN_EVERYWHERE.flatMap((one) => parseRange(one.cidr) ?? [])

  expect(NEVER).toContain(cidr)
  expect(range && forbidden.some((one) => covers(one, range))).toBe(true)
})

it('refuses a text that is not a range', () => {
  const egress = resolveEgress(policyWith('[10.20.0.0/16]'), {})
  const agent = egress.classes.agent.map((entry) => ({ ...entry, addresses: ['10.20.0.0/33'] }))

  expect(forbiddenEndpoints(environment(), { ...egress, classes: { agent, command: [] } })).toContainEqual(
    expect.stringContaining('is not a range of addresses'),
  )
})
