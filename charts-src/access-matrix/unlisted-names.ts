import { ENDPOINTS, type EndpointId } from './endpoints.ts'
import { expectedNames, isGateway } from './expectations.ts'
import type { World } from './world.ts'

/**
 * Names on no list: an attacker's own, near misses of listed names, names of other tenants, and cluster
 * names.
 */
const NEVER_LISTED = [
  'example.com',
  'c2VjcmV0.exfiltration.example.net',
  'attacker.vault.azure.net',
  'attacker.openai.azure.com',
  'metadata.google.internal',
  'kubernetes.default.svc.cluster.local',
  'agentweaver-api.agentweaver.svc.cluster.local',
]

/** Names that an endpoint must not look up unless it lists them: names on other lists, and similar names. */
export function unlistedNames({ environment, egress }: World, endpoint: EndpointId): string[] {
  const ids = Object.keys(ENDPOINTS) as EndpointId[]
  const listed = new Set(ids.flatMap((id) => [...expectedNames(environment, egress, id).keys()]))
  const own = [...expectedNames(environment, egress, endpoint).keys()]
  const near = own.flatMap((name) => [
    `x.${name}`,
    `${name}.example.net`,
    name.split('.').slice(1).join('.'),
    // Gateways may look up every name in their controller's namespace, so this name is allowed for them.
    ...(isGateway(endpoint) ? [] : [`x-${name}`]),
  ])
  // Agents call it through the egress proxy.
  const { modelHost } = environment.infra.azure ?? {}
  const model = modelHost === undefined ? [] : [modelHost]
  return [...new Set([...NEVER_LISTED, ...listed, ...near, ...model])].filter((name) => !own.includes(name))
}
