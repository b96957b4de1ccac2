import { CLASS_LABEL } from '../../contracts/labels.ts'
import { names, SandboxKind } from '../../contracts/names.ts'
import { AGENT_HOST_PORT, EGRESS_PROXY_PORT, PREVIEW_PORTS } from '../../contracts/ports.ts'
import type { ResolvedEgress } from '../../policies/agent/egress/resolve.ts'
import { destinationsFor } from '../../policies/agent/egress/targets.ts'
import type { Environment } from '../environment/schema.ts'
import type { KubeObject } from '../kube-object.ts'
import { workloads } from '../workloads.ts'
import { forbiddenRanges } from './forbidden.ts'
import { egressToNames } from './names-egress.ts'
import { ciliumPolicy, endpoint, networkPolicy, podPeer, tcp, tcpPorts } from './policy-objects.ts'

/**
 * Selects sandboxes by class only. The label exists from creation, so a claim cannot change which policies
 * apply.
 */
const EVERY_SANDBOX = {
  matchExpressions: [{ key: CLASS_LABEL, operator: 'In', values: [...SandboxKind.options] }],
}

/** Policies of the sandbox namespace, in addition to its default deny. */
export function sandboxPolicies(environment: Environment, egress: ResolvedEgress): KubeObject[] {
  return [
    ...ingressPolicies(environment),
    neverPolicy(environment),
    ...SandboxKind.options.flatMap((kind) => egressOfClass(environment, egress, kind)),
  ]
}

const placed = ({ slice }: Environment, name: string) => ({
  slice,
  namespace: names(slice).namespaces.sandboxes,
  name,
})

function ingressPolicies(environment: Environment): KubeObject[] {
  const { api, previewGateway } = workloads(environment.slice)
  return [
    networkPolicy(placed(environment, 'sandbox-from-api'), {
      podSelector: EVERY_SANDBOX,
      ingress: [{ from: [podPeer(api)], ports: [tcp(AGENT_HOST_PORT)] }],
    }),
    networkPolicy(placed(environment, 'sandbox-from-previews'), {
      podSelector: EVERY_SANDBOX,
      ingress: [{ from: [podPeer(previewGateway)], ports: previewPorts() }],
    }),
  ]
}

/** The preview range, split around ports that must never be previewed. */
export function previewPorts(): object[] {
  const edges = [...PREVIEW_PORTS.except].sort((a, b) => a - b)
  const starts = [PREVIEW_PORTS.min, ...edges.map((port) => port + 1)]
  const ends = [...edges.map((port) => port - 1), PREVIEW_PORTS.max]
  return starts.map((port, index) => ({ protocol: 'TCP', port, endPort: ends[index] }))
}

/**
 * Denies that hold even when another policy allows everything, because Cilium's deny rules override allow
 * rules. A CIDR never selects pods or nodes, so the policy denies those as entities.
 */
function neverPolicy(environment: Environment): KubeObject {
  const { namespaces } = names(environment.slice)
  const { previewGateway } = workloads(environment.slice)
  const everyPodOf = (namespace: string) => endpoint({ namespace, labels: {} })
  return ciliumPolicy(placed(environment, 'sandbox-never'), {
    endpointSelector: EVERY_SANDBOX,
    egressDeny: [
      { toCIDRSet: forbiddenRanges(environment).map(({ cidr }) => ({ cidr })) },
      { toEntities: ['host', 'remote-node', 'kube-apiserver'] },
      { toEndpoints: [everyPodOf(namespaces.sandboxes), everyPodOf(namespaces.controlPlane)] },
    ],
    ingressDeny: [
      { fromEntities: ['world'] },
      { fromEndpoints: [everyPodOf(namespaces.sandboxes)] },
      { fromEndpoints: [endpoint(previewGateway)], toPorts: [tcpPorts(AGENT_HOST_PORT)] },
    ],
  })
}

function egressOfClass(environment: Environment, egress: ResolvedEgress, kind: SandboxKind): KubeObject[] {
  const { mode } = environment.egress
  const place = placed(environment, `${kind}-egress`)
  const podSelector = { matchLabels: { [CLASS_LABEL]: kind } }
  if (mode === 'proxy') {
    const { egressProxy } = workloads(environment.slice)
    const toProxy = { to: [podPeer(egressProxy)], ports: [tcp(EGRESS_PROXY_PORT)] }
    return [networkPolicy(place, { podSelector, egress: [toProxy] })]
  }
  const rules =
    mode === 'fqdn'
      ? egressToNames(environment.slice, byPorts(destinationsFor(egress.classes[kind], 'fqdn')))
      : []
  return rules.length === 0 ? [] : [ciliumPolicy(place, { endpointSelector: podSelector, egress: rules })]
}

/** Groups destinations with equal ports into one rule. */
export function byPorts(destinations: ResolvedEgress['classes']['agent']) {
  const groups = Map.groupBy(destinations, ({ ports }) => ports.toSorted((a, b) => a - b).join(' '))
  return [...groups.values()].map((group) => ({
    hosts: group.map(({ host }) => host),
    ports: group[0]?.ports ?? [],
  }))
}
