import { isIP } from 'node:net'
import type { Construct } from 'constructs'
import { CLASS_LABEL } from '../../contracts/labels.ts'
import { METADATA_RANGES } from '../../contracts/metadata-ranges.ts'
import { names, SandboxKind } from '../../contracts/names.ts'
import { AGENT_HOST_PORT, API_PORT, EGRESS_CONTROL_PORT, METRICS_PORT } from '../../contracts/ports.ts'
import { gitHubAppServers } from '../environment/github-apps.ts'
import type { Environment } from '../environment/schema.ts'
import { issuerHosts } from '../environment/sign-in.ts'
import { collectorOf } from '../environment/traces.ts'
import { upstreamPlace } from '../environment/upstream-proxy.ts'
import type { CiliumNetworkPolicySpecEgress } from '../imports/cilium.js'
import type { NetworkPolicyPeer } from '../imports/k8s.js'
import { workloads } from '../workloads.ts'
import { egressToNames, type NamesAtPorts } from './names-egress.ts'
import {
  addCiliumPolicy,
  addNetworkPolicy,
  endpoint,
  namespacePeer,
  podPeer,
  tcp,
  tcpPorts,
} from './policy-objects.ts'
import { asRange } from './private-endpoints.ts'
import { previewPorts } from './sandboxes.ts'

const HTTPS = 443

/** Policies of the control-plane namespace, in addition to its default deny. */
export function addControlPlanePolicies(scope: Construct, environment: Environment): void {
  addApiIngress(scope, environment)
  addApiToSandboxes(scope, environment)
  addApiEgress(scope, environment)
  addDatabaseSetupEgress(scope, environment)
  addGateways(scope, environment)
}

const placed = ({ slice }: Environment, name: string) => ({
  slice,
  namespace: names(slice).namespaces.controlPlane,
  name,
})

function addApiIngress(scope: Construct, environment: Environment): void {
  const { api, apiGateway, egressProxy } = workloads(environment.slice)
  const ofProxy = { from: [podPeer(egressProxy)], ports: [tcp(EGRESS_CONTROL_PORT)] }
  addNetworkPolicy(scope, placed(environment, 'api-ingress'), {
    podSelector: { matchLabels: api.labels },
    ingress: [
      { from: [podPeer(apiGateway)], ports: [tcp(API_PORT)] },
      { from: [namespacePeer(environment.infra.monitoring.namespace)], ports: [tcp(METRICS_PORT)] },
      ...(environment.egress.mode === 'proxy' ? [ofProxy] : []),
    ],
  })
}

/** Sandboxes of both classes as a peer. */
function everySandbox({ slice }: Environment): NetworkPolicyPeer {
  return {
    ...namespacePeer(names(slice).namespaces.sandboxes),
    podSelector: {
      matchExpressions: [{ key: CLASS_LABEL, operator: 'In', values: [...SandboxKind.options] }],
    },
  }
}

function addApiToSandboxes(scope: Construct, environment: Environment): void {
  addNetworkPolicy(scope, placed(environment, 'api-to-sandboxes'), {
    podSelector: { matchLabels: workloads(environment.slice).api.labels },
    egress: [{ to: [everySandbox(environment)], ports: [tcp(AGENT_HOST_PORT)] }],
  })
}

/**
 * The API server is allowed as an entity, because its address may be a node's; the database by range;
 * everything else by name.
 */
function addApiEgress(scope: Construct, environment: Environment): void {
  const { apiServer, database, azure } = environment.infra
  const ofAzure = azure ? [azure.loginHost, azure.vaults.controlPlane.host, azure.vaults.userTokens.host] : []
  const hosts = [...ofAzure, ...issuerHosts(environment.signIn)]
  const ways = [toGitHub(environment), toCollector(environment)]
  addCiliumPolicy(scope, placed(environment, 'api-egress'), {
    endpointSelector: { matchLabels: workloads(environment.slice).api.labels },
    egress: [
      { toEntities: ['kube-apiserver'], toPorts: [tcpPorts(apiServer.port)] },
      { toCidrSet: [{ cidr: database.cidr }], toPorts: [tcpPorts(database.port)] },
      ...egressToNames(environment.slice, [
        { hosts, ports: [HTTPS] },
        { hosts: [database.host], ports: [] },
        ...ways.flatMap(({ names: hosts }) => hosts),
      ]),
      ...ways.flatMap(({ rules }) => rules),
    ],
    egressDeny: [{ toCidrSet: METADATA_RANGES.azure.map((cidr) => ({ cidr })) }],
  })
}

/** A way of the API to a place that not every environment has. */
interface Way {
  readonly names: readonly NamesAtPorts[]
  readonly rules: readonly CiliumNetworkPolicySpecEgress[]
}

/** The API creates the tokens of GitHub Apps: at their servers, or through the company's proxy alone. */
function toGitHub({ egress }: Environment): Way {
  const servers = gitHubAppServers(egress)
  if (servers.length === 0 || egress.upstreamProxy === undefined)
    return { names: servers.map(([host, port]) => ({ hosts: [host], ports: [port] })), rules: [] }
  const { host, ports, addresses } = upstreamPlace(egress.upstreamProxy)
  const toCidrSet = addresses.map((address) => ({ cidr: asRange(address) }))
  return {
    names: isIP(host) === 0 ? [{ hosts: [host], ports: [] }] : [],
    rules: [{ toCidrSet, toPorts: [tcpPorts(...ports)] }],
  }
}

/** A collector of traces: a host, or the pods in the namespace of a Service. The pods must listen on the port of the Service. */
function toCollector({ traces }: Environment): Way {
  if (traces === undefined) return { names: [], rules: [] }
  const { host, port, namespace } = collectorOf(traces)
  if (namespace === undefined) return { names: [{ hosts: [host], ports: [port] }], rules: [] }
  const toEndpoints = [endpoint({ namespace, labels: {} })]
  return { names: [{ hosts: [host], ports: [] }], rules: [{ toEndpoints, toPorts: [tcpPorts(port)] }] }
}

/** The setup Job may reach the database, and the login host for its token. Nothing may connect to it. */
function addDatabaseSetupEgress(scope: Construct, environment: Environment): void {
  const { database, azure } = environment.infra
  if (azure?.databaseSetup === undefined) return
  addCiliumPolicy(scope, placed(environment, 'database-setup-egress'), {
    endpointSelector: { matchLabels: workloads(environment.slice).databaseSetup.labels },
    egress: [
      { toCidrSet: [{ cidr: database.cidr }], toPorts: [tcpPorts(database.port)] },
      ...egressToNames(environment.slice, [
        { hosts: [azure.loginHost], ports: [HTTPS] },
        { hosts: [database.host], ports: [] },
      ]),
    ],
    egressDeny: [{ toCidrSet: METADATA_RANGES.azure.map((cidr) => ({ cidr })) }],
  })
}

function addGateways(scope: Construct, environment: Environment): void {
  const { api, apiGateway, previewGateway } = workloads(environment.slice)
  const { podPorts } = environment.infra.gateway
  const behind = [
    {
      gateway: apiGateway,
      name: 'api-gateway',
      to: { to: [podPeer(api)], ports: [tcp(API_PORT)] },
    },
    {
      gateway: previewGateway,
      name: 'preview-gateway',
      to: { to: [everySandbox(environment)], ports: previewPorts() },
    },
  ]
  for (const { gateway, name, to } of behind) {
    addNetworkPolicy(scope, placed(environment, name), {
      podSelector: { matchLabels: gateway.labels },
      // Accepts connections from everywhere. The API authenticates each request.
      ingress: [{ ports: podPorts.map(tcp) }],
      egress: [to],
    })
    addGatewayConfiguration(scope, environment, { name: `${name}-configuration`, labels: gateway.labels })
  }
}

/**
 * Gateway pods resolve their controller and fetch their configuration from it. A resolver first appends the
 * search domains to a name with few dots. Some resolvers stop their search when such a lookup is refused, so
 * those lookups are allowed too.
 */
function addGatewayConfiguration(
  scope: Construct,
  environment: Environment,
  { name, labels }: { readonly name: string; readonly labels: Readonly<Record<string, string>> },
): void {
  const { namespace, port } = environment.infra.gateway.controller
  const service = `*.${namespace}.svc`
  const hosts = [
    service,
    `${service}.cluster.local`,
    `${service}.*.svc.cluster.local`,
    `${service}.svc.cluster.local`,
  ]
  addCiliumPolicy(scope, placed(environment, name), {
    endpointSelector: { matchLabels: labels },
    egress: [
      {
        toEndpoints: [{ matchLabels: { 'k8s:io.kubernetes.pod.namespace': namespace } }],
        toPorts: [tcpPorts(port)],
      },
      ...egressToNames(environment.slice, [{ hosts, ports: [] }]),
    ],
    egressDeny: [{ toCidrSet: METADATA_RANGES.azure.map((cidr) => ({ cidr })) }],
  })
}
