import { names, SandboxKind } from '../../contracts/names.ts'
import { EGRESS_PROXY_PORT, METRICS_PORT } from '../../contracts/ports.ts'
import { allowlist } from '../../policies/agent/egress/allowlist.ts'
import type { ResolvedEgress } from '../../policies/agent/egress/resolve.ts'
import { destinationsFor } from '../../policies/agent/egress/targets.ts'
import type { Environment } from '../environment/schema.ts'
import type { KubeObject } from '../kube-object.ts'
import { PART_OF_LABEL, workloads } from '../workloads.ts'
import { forbiddenRanges } from './forbidden.ts'
import { egressToNames } from './names-egress.ts'
import { ciliumPolicy, endpoint, namespacePeer, networkPolicy, podPeer, tcp } from './policy-objects.ts'
import { byPorts } from './sandboxes.ts'

/** The ConfigMap key that holds the proxy's allowlist. */
export const EGRESS_RULES_FILE = 'egress.json'

/** Policies of the proxy namespace and the proxy's allowlist. Empty when the environment uses no proxy. */
export function egressProxyObjects(environment: Environment, egress: ResolvedEgress): KubeObject[] {
  if (environment.egress.mode !== 'proxy') return []
  const { egressProxy, sandbox } = workloads(environment.slice)
  const place = (name: string) => ({ slice: environment.slice, namespace: egressProxy.namespace, name })
  const podSelector = { matchLabels: egressProxy.labels }
  return [
    networkPolicy(place('proxy-ingress'), {
      podSelector,
      ingress: [
        {
          from: SandboxKind.options.map((kind) => podPeer(sandbox(kind))),
          ports: [tcp(EGRESS_PROXY_PORT)],
        },
        { from: [namespacePeer(environment.infra.monitoring.namespace)], ports: [tcp(METRICS_PORT)] },
      ],
    }),
    proxyEgress(environment, egress),
    ...proxyService(environment),
    rules(environment, egress),
  ]
}

/** A fixed cluster address, because sandboxes cannot resolve names. */
function proxyService({ slice, egress }: Environment): KubeObject[] {
  if (egress.proxyAddress === undefined) return []
  const { prefix } = names(slice)
  const { name, namespace, labels } = workloads(slice).egressProxy
  const family = egress.proxyAddress.includes(':') ? 'IPv6' : 'IPv4'
  return [
    {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name, namespace, labels: { [PART_OF_LABEL]: prefix } },
      spec: {
        type: 'ClusterIP',
        clusterIP: egress.proxyAddress,
        ipFamilyPolicy: 'SingleStack',
        ipFamilies: [family],
        selector: labels,
        ports: [{ name: 'proxy', port: EGRESS_PROXY_PORT, targetPort: EGRESS_PROXY_PORT, protocol: 'TCP' }],
      },
    },
  ]
}

/** The proxy checks each request. This policy also limits its connections, in case the proxy fails to. */
function proxyEgress(environment: Environment, egress: ResolvedEgress): KubeObject {
  const { slice } = environment
  const { egressProxy } = workloads(slice)
  const { sandboxes, controlPlane } = names(slice).namespaces
  const destinations = SandboxKind.options.flatMap((kind) => destinationsFor(egress.classes[kind], 'proxy'))
  return ciliumPolicy(
    { slice, namespace: egressProxy.namespace, name: 'proxy-egress' },
    {
      endpointSelector: { matchLabels: egressProxy.labels },
      egress: egressToNames(slice, byPorts(destinations)),
      egressDeny: [
        { toCIDRSet: forbiddenRanges(environment).map(({ cidr }) => ({ cidr })) },
        { toEntities: ['host', 'remote-node', 'kube-apiserver'] },
        { toEndpoints: [sandboxes, controlPlane].map((namespace) => endpoint({ namespace, labels: {} })) },
      ],
    },
  )
}

function rules(environment: Environment, egress: ResolvedEgress): KubeObject {
  const { prefix, namespaces } = names(environment.slice)
  const classes = Object.fromEntries(
    SandboxKind.options.map((kind) => [kind, allowlist(egress, kind, 'proxy')]),
  )
  return {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: {
      name: `${prefix}-egress-rules`,
      namespace: namespaces.egress,
      labels: { [PART_OF_LABEL]: prefix },
    },
    data: { [EGRESS_RULES_FILE]: `${JSON.stringify({ classes }, null, 2)}\n` },
  }
}
