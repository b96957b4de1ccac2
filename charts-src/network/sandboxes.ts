import type { Construct } from 'constructs'
import { CLASS_LABEL } from '../../contracts/labels.ts'
import { names, SandboxKind } from '../../contracts/names.ts'
import { AGENT_HOST_PORT, EGRESS_PROXY_PORT, PREVIEW_PORTS } from '../../contracts/ports.ts'
import type { ResolvedEgress } from '../../policies/agent/egress/resolve.ts'
import { destinationsFor } from '../../policies/agent/egress/targets.ts'
import type { Environment } from '../environment/schema.ts'
import type { NetworkPolicyPort } from '../imports/k8s.js'
import { workloads } from '../workloads.ts'
import { forbiddenRanges } from './forbidden.ts'
import { egressToNames } from './names-egress.ts'
import { addCiliumPolicy, addNetworkPolicy, endpoint, podPeer, tcp, tcpPorts } from './policy-objects.ts'

/**
 * Selects sandboxes by class only. The label exists from creation, so a claim cannot change which policies
 * apply.
 */
const EVERY_SANDBOX = {
  matchExpressions: [{ key: CLASS_LABEL, operator: 'In' as const, values: [...SandboxKind.options] }],
}

/** Policies of the sandbox namespace, in addition to its default deny. */
export function addSandboxPolicies(scope: Construct, environment: Environment, egress: ResolvedEgress): void {
  addIngress(scope, environment)
  addNever(scope, environment)
  for (const kind of SandboxKind.options) addEgress(scope, { environment, egress, kind })
}

const placed = ({ slice }: Environment, name: string) => ({
  slice,
  namespace: names(slice).namespaces.sandboxes,
  name,
})

function addIngress(scope: Construct, environment: Environment): void {
  const { api, previewGateway } = workloads(environment.slice)
  addNetworkPolicy(scope, placed(environment, 'sandbox-from-api'), {
    podSelector: EVERY_SANDBOX,
    ingress: [{ from: [podPeer(api)], ports: [tcp(AGENT_HOST_PORT)] }],
  })
  addNetworkPolicy(scope, placed(environment, 'sandbox-from-previews'), {
    podSelector: EVERY_SANDBOX,
    ingress: [{ from: [podPeer(previewGateway)], ports: previewPorts() }],
  })
}

/** The preview range, split around ports that must never be previewed. */
export function previewPorts(): NetworkPolicyPort[] {
  const edges = [...PREVIEW_PORTS.except].sort((a, b) => a - b)
  const starts = [PREVIEW_PORTS.min, ...edges.map((port) => port + 1)]
  const ends = [...edges.map((port) => port - 1), PREVIEW_PORTS.max]
  return starts.map((port, index) => ({ ...tcp(port), endPort: ends[index] }))
}

/**
 * Denies that hold even when another policy allows everything, because Cilium's deny rules override allow
 * rules. A CIDR never selects pods or nodes, so the policy denies those as entities.
 */
function addNever(scope: Construct, environment: Environment): void {
  const { namespaces } = names(environment.slice)
  const { previewGateway } = workloads(environment.slice)
  const everyPodOf = (namespace: string) => endpoint({ namespace, labels: {} })
  addCiliumPolicy(scope, placed(environment, 'sandbox-never'), {
    endpointSelector: EVERY_SANDBOX,
    egressDeny: [
      { toCidrSet: forbiddenRanges(environment).map(({ cidr }) => ({ cidr })) },
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

interface ClassEgress {
  readonly environment: Environment
  readonly egress: ResolvedEgress
  readonly kind: SandboxKind
}

function addEgress(scope: Construct, { environment, egress, kind }: ClassEgress): void {
  const { mode } = environment.egress
  const place = placed(environment, `${kind}-egress`)
  const podSelector = { matchLabels: { [CLASS_LABEL]: kind } }
  if (mode === 'proxy') {
    const { egressProxy } = workloads(environment.slice)
    const toProxy = { to: [podPeer(egressProxy)], ports: [tcp(EGRESS_PROXY_PORT)] }
    addNetworkPolicy(scope, place, { podSelector, egress: [toProxy] })
  }
  if (mode !== 'fqdn') return
  const rules = egressToNames(environment.slice, byPorts(destinationsFor(egress.classes[kind], 'fqdn')))
  if (rules.length > 0) addCiliumPolicy(scope, place, { endpointSelector: podSelector, egress: rules })
}

/** Groups destinations with equal ports into one rule. */
export function byPorts(destinations: ResolvedEgress['classes']['agent']) {
  const groups = Map.groupBy(destinations, ({ ports }) => ports.toSorted((a, b) => a - b).join(' '))
  return [...groups.values()].map((group) => ({
    hosts: group.map(({ host }) => host),
    ports: group[0]?.ports ?? [],
  }))
}
