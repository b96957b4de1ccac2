import type { Construct } from 'constructs'
import { names, SandboxKind } from '../../contracts/names.ts'
import { EGRESS_PROXY_PORT, METRICS_PORT } from '../../contracts/ports.ts'
import { allowlist } from '../../policies/agent/egress/allowlist.ts'
import type { ResolvedEgress } from '../../policies/agent/egress/resolve.ts'
import { destinationsFor } from '../../policies/agent/egress/targets.ts'
import type { Environment } from '../environment/schema.ts'
import { IntOrString, KubeConfigMap, KubeService } from '../imports/k8s.js'
import { PART_OF_LABEL, workloads } from '../workloads.ts'
import { forbiddenRanges } from './forbidden.ts'
import { egressToNames } from './names-egress.ts'
import { addCiliumPolicy, addNetworkPolicy, endpoint, namespacePeer, podPeer, tcp } from './policy-objects.ts'
import { byPorts } from './sandboxes.ts'

/** The ConfigMap key that holds the proxy's allowlist. */
const EGRESS_RULES_FILE = 'egress.json'

/** Adds the policies of the proxy namespace and the proxy's allowlist, if the environment uses a proxy. */
export function addEgressProxy(scope: Construct, environment: Environment, egress: ResolvedEgress): void {
  if (environment.egress.mode !== 'proxy') return
  const { egressProxy, sandbox } = workloads(environment.slice)
  const place = { slice: environment.slice, namespace: egressProxy.namespace, name: 'proxy-ingress' }
  addNetworkPolicy(scope, place, {
    podSelector: { matchLabels: egressProxy.labels },
    ingress: [
      {
        from: SandboxKind.options.map((kind) => podPeer(sandbox(kind))),
        ports: [tcp(EGRESS_PROXY_PORT)],
      },
      { from: [namespacePeer(environment.infra.monitoring.namespace)], ports: [tcp(METRICS_PORT)] },
    ],
  })
  addProxyEgress(scope, environment, egress)
  addProxyService(scope, environment)
  addAllowlist(scope, environment, egress)
}

/** A fixed cluster address, because sandboxes cannot resolve names. */
function addProxyService(scope: Construct, { slice, egress }: Environment): void {
  if (egress.proxyAddress === undefined) return
  const { prefix } = names(slice)
  const { name, namespace, labels } = workloads(slice).egressProxy
  const family = egress.proxyAddress.includes(':') ? 'IPv6' : 'IPv4'
  const targetPort = IntOrString.fromNumber(EGRESS_PROXY_PORT)
  new KubeService(scope, 'Service', {
    metadata: { name, namespace, labels: { [PART_OF_LABEL]: prefix } },
    spec: {
      type: 'ClusterIP',
      clusterIp: egress.proxyAddress,
      ipFamilyPolicy: 'SingleStack',
      ipFamilies: [family],
      selector: labels,
      ports: [{ name: 'proxy', port: EGRESS_PROXY_PORT, targetPort, protocol: 'TCP' }],
    },
  })
}

/** The proxy checks each request. This policy also limits its connections, in case the proxy fails to. */
function addProxyEgress(scope: Construct, environment: Environment, egress: ResolvedEgress): void {
  const { slice } = environment
  const { egressProxy } = workloads(slice)
  const { sandboxes, controlPlane } = names(slice).namespaces
  const destinations = SandboxKind.options.flatMap((kind) => destinationsFor(egress.classes[kind], 'proxy'))
  const place = { slice, namespace: egressProxy.namespace, name: 'proxy-egress' }
  addCiliumPolicy(scope, place, {
    endpointSelector: { matchLabels: egressProxy.labels },
    egress: egressToNames(slice, byPorts(destinations)),
    egressDeny: [
      { toCidrSet: forbiddenRanges(environment).map(({ cidr }) => ({ cidr })) },
      { toEntities: ['host', 'remote-node', 'kube-apiserver'] },
      { toEndpoints: [sandboxes, controlPlane].map((namespace) => endpoint({ namespace, labels: {} })) },
    ],
  })
}

function addAllowlist(scope: Construct, environment: Environment, egress: ResolvedEgress): void {
  const { prefix, namespaces } = names(environment.slice)
  const classes = Object.fromEntries(
    SandboxKind.options.map((kind) => [kind, allowlist(egress, kind, 'proxy')]),
  )
  new KubeConfigMap(scope, 'Allowlist', {
    metadata: {
      name: `${prefix}-egress-rules`,
      namespace: namespaces.egress,
      labels: { [PART_OF_LABEL]: prefix },
    },
    data: { [EGRESS_RULES_FILE]: `${JSON.stringify({ classes }, null, 2)}\n` },
  })
}
