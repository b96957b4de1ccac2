import { isIP } from 'node:net'
import type { KubeObject } from '../charts-src/kube-object.ts'
import { checkCombinations, isPortName } from './cilium-combinations.ts'
import {
  type CiliumEntry,
  CiliumObject,
  type CiliumPort,
  type CiliumRule,
  fromEgress,
  fromIngress,
} from './cilium-schema.ts'
import { isModelledPeer, peerRequirements, subjectRequirements } from './cilium-selectors.ts'
import type { CompiledRule, Direction, PeerMatch, PortMatch } from './compiled-rule.ts'
import { nameMatcher } from './dns-names.ts'
import { entitySelectors } from './entities.ts'
import {
  checkSelector,
  notUnderstood,
  type PolicyContext,
  parseStrictly,
  rangeMatch,
  refused,
} from './policy-context.ts'
import { createSelector, type LabelSelector } from './selector.ts'

/** Compiles a `CiliumNetworkPolicy`, or a `CiliumClusterwideNetworkPolicy` if the object has no namespace. */
export function compileCiliumPolicy(context: PolicyContext, object: KubeObject): CompiledRule[] {
  const parsed = parseStrictly(context, CiliumObject, object)
  if (parsed === undefined) return []
  const isNamespaced = object.kind === 'CiliumNetworkPolicy'
  if (isNamespaced === (context.namespace === undefined))
    notUnderstood(context, 'metadata.namespace', isNamespaced ? 'is missing' : 'has no place here')
  const specs = [
    ...(parsed.spec ? [{ path: 'spec', rule: parsed.spec }] : []),
    ...(parsed.specs ?? []).map((rule, index) => ({ path: `specs[${index}]`, rule })),
  ]
  if (specs.length === 0) refused(context, 'spec', 'is missing')
  return specs.flatMap(({ path, rule }) => compileRule(context, path, rule))
}

function compileRule(context: PolicyContext, path: string, rule: CiliumRule): CompiledRule[] {
  const { ingress = [], ingressDeny = [], egress = [], egressDeny = [], endpointSelector } = rule
  const lists = [
    { direction: 'ingress', isDeny: false, list: 'ingress', entries: ingress.map(fromIngress) },
    { direction: 'ingress', isDeny: true, list: 'ingressDeny', entries: ingressDeny.map(fromIngress) },
    { direction: 'egress', isDeny: false, list: 'egress', entries: egress.map(fromEgress) },
    { direction: 'egress', isDeny: true, list: 'egressDeny', entries: egressDeny.map(fromEgress) },
  ] as const
  if (lists.every(({ entries }) => entries.length === 0))
    refused(context, path, 'has none of ingress, ingressDeny, egress, egressDeny')
  if (endpointSelector === undefined) {
    refused(context, path, 'has no endpointSelector')
    return []
  }
  checkSelector(context, `${path}.endpointSelector`, endpointSelector)
  const subject = createSelector(subjectRequirements(context, endpointSelector))
  return lists.flatMap(({ direction, isDeny, list, entries }) =>
    entries.map((entry, index) => {
      const at = `${path}.${list}[${index}]`
      checkCombinations(context, { path: at, direction }, entry)
      return {
        direction,
        isDeny,
        isDefaultDeny: rule.enableDefaultDeny?.[direction] ?? true,
        subject,
        ...peersAndPorts(context, { path: at, direction }, entry),
        ref: { policy: context.policy, path: at },
      }
    }),
  )
}

/**
 * Cilium's rules for missing lists: an entry with ports and without peer lists allows all peers at these ports; an
 * entry with neither matches no peer; an empty peer list matches no peer.
 */
function peersAndPorts(
  context: PolicyContext,
  { path, direction }: { readonly path: string; readonly direction: Direction },
  entry: CiliumEntry,
): Pick<CompiledRule, 'peers' | 'ports'> {
  const { endpoints, entities, cidrs, cidrSet, names, toPorts } = entry
  const ports = toPorts.length === 0 ? ('all' as const) : toPorts.flatMap(portMatches)
  if ([endpoints, entities, cidrs, cidrSet].some((list) => list?.length === 0)) return { peers: [], ports }
  const lists = [endpoints, entities, cidrs, cidrSet, names]
  if (lists.every((list) => list === undefined)) return { peers: ports === 'all' ? [] : 'anyone', ports }
  const ranges = [...(cidrs ?? []).map((cidr) => ({ cidr: withLength(cidr) })), ...(cidrSet ?? [])]
  return {
    ports,
    peers: [
      ...(endpoints ?? []).map((selector) => endpointMatch(context, path, selector)),
      ...(entities ?? []).flatMap((entity) => entityMatches(context, { path, direction }, entity)),
      ...ranges.flatMap((range) => rangeMatch(context, path, range) ?? []),
      ...(names === undefined ? [] : [{ kind: 'names', matches: nameMatcher(names) } as const]),
    ],
  }
}

/** `toCIDR` accepts an address without a prefix length; `toCIDRSet` does not. */
const withLength = (cidr: string): string =>
  isIP(cidr) === 0 ? cidr : `${cidr}/${isIP(cidr) === 4 ? 32 : 128}`

function endpointMatch(context: PolicyContext, path: string, selector: LabelSelector): PeerMatch {
  checkSelector(context, path, selector)
  const requirements = peerRequirements(context, selector)
  if (!isModelledPeer(requirements))
    notUnderstood(context, path, 'requires no label of a pod: Cilium then selects more than it says')
  return { kind: 'selector', selector: createSelector(requirements) }
}

function entityMatches(
  context: PolicyContext,
  { path, direction }: { readonly path: string; readonly direction: Direction },
  entity: string,
): PeerMatch[] {
  const selectors = entitySelectors(entity)
  const at = `${path}.${direction === 'ingress' ? 'fromEntities' : 'toEntities'}`
  if (selectors === 'unknown') refused(context, at, `"${entity}" is no entity`)
  if (selectors === 'not modelled') notUnderstood(context, at, `"${entity}" is not modelled`)
  return typeof selectors === 'string' ? [] : selectors.map((selector) => ({ kind: 'selector', selector }))
}

function portMatches({ ports = [], rules }: CiliumEntry['toPorts'][number]): PortMatch[] {
  const lookups = rules?.dns?.length ? { lookups: nameMatcher(rules.dns) } : {}
  return ports.flatMap((port) => oneMatch(port).map((match) => ({ ...match, ...lookups })))
}

function oneMatch({ port, endPort = 0, protocol }: CiliumPort): PortMatch[] {
  const protocols = protocol === 'ANY' ? (['TCP', 'UDP', 'SCTP'] as const) : [protocol]
  const name = isPortName(port) ? { name: port.toLowerCase() } : {}
  const number = Number(port)
  const [first, last] = number === 0 ? [1, 65_535] : [number, Math.max(number, endPort)]
  return protocols.map((one) => ({ protocol: one, first, last, ...name }))
}
