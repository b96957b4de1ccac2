import {
  AGENT_HOST_PORT,
  API_PORT,
  EGRESS_CONTROL_PORT,
  EGRESS_HEALTH_PORT,
  EGRESS_PROXY_PORT,
  METRICS_PORT,
} from '../../contracts/ports.ts'
import type { ResolvedEgress } from '../../policies/agent/egress/resolve.ts'
import { destinationsFor } from '../../policies/agent/egress/targets.ts'
import { ALL_PORTS, type PortSet, portSet, unite } from '../../reachability/port-set.ts'
import type { Environment } from '../environment/schema.ts'
import { workloads } from '../workloads.ts'
import { type EndpointId, LABEL_COPIES } from './endpoints.ts'

const LOOKUPS = portSet({ TCP: [[53, 53]], UDP: [[53, 53]] })
const tcp = (port: number) => portSet({ TCP: [[port, port]] })

/** Preview ports: 3000 to 9000 without AgentHost's control port. */
const PREVIEWS = portSet({
  TCP: [
    [3000, 8087],
    [8089, 9000],
  ],
})

/** Every TCP port except the ports of resolvers. */
const NO_RESOLVERS = portSet({
  TCP: [
    [1, 52],
    [54, 852],
    [854, 65_535],
  ],
})

const SANDBOXES: readonly EndpointId[] = ['agent', 'command', 'other agent', 'other command']
const GATEWAYS: readonly EndpointId[] = ['api gateway', 'preview gateway']
const OURS: readonly EndpointId[] = [
  ...SANDBOXES,
  ...GATEWAYS,
  'stray sandbox',
  'api',
  'database setup',
  'stray control plane',
  'proxy',
  'stray egress',
]

/** Endpoints that open connections. */
export const SOURCES: readonly EndpointId[] = [
  ...OURS,
  'dns',
  'monitoring',
  'gateway controller',
  'elsewhere',
  ...LABEL_COPIES,
  'own node',
  'other node',
  'api server',
  'internet',
]

export const isOurs = (id: EndpointId): boolean => OURS.includes(id)
export const isGateway = (id: EndpointId): boolean => GATEWAYS.includes(id)

/** One permitted connection: source, target and ports. Everything not listed must be closed. */
export interface Opening {
  readonly from: readonly EndpointId[]
  readonly to: readonly EndpointId[]
  readonly ports: PortSet
  /** Restricts the opening to one side of the connection. @default both */
  readonly side?: Side
}

/** Egress policies of the source (`leaving`) or ingress policies of the target (`entering`). */
export type Side = 'leaving' | 'entering'

/**
 * Every permitted connection, written from the table of docs/network.md and independent of the policy
 * generators.
 */
export function openings(environment: Environment, egress: ResolvedEgress): Opening[] {
  const { infra } = environment
  const [podPorts, controller] = [infra.gateway.podPorts, infra.gateway.controller]
  const setup: readonly EndpointId[] = infra.azure?.databaseSetup ? ['database setup'] : []
  return [
    { from: ['api'], to: SANDBOXES, ports: tcp(AGENT_HOST_PORT) },
    { from: ['preview gateway'], to: SANDBOXES, ports: PREVIEWS },
    { from: ['api gateway'], to: ['api'], ports: tcp(API_PORT) },
    { from: inNamespace(infra.monitoring.namespace, environment), to: ['api'], ports: tcp(METRICS_PORT) },
    { from: ['api'], to: ['api server', 'unknown api server'], ports: tcp(infra.apiServer.port) },
    { from: ['api', ...setup], to: ['database'], ports: tcp(infra.database.port) },
    { from: ['api', ...setup, ...GATEWAYS], to: ['dns'], ports: LOOKUPS },
    { from: GATEWAYS, to: inNamespace(controller.namespace, environment), ports: tcp(controller.port) },
    // Gateways accept connections from everywhere. The egress side of our own pods decides which of them may
    // connect.
    {
      from: SOURCES,
      to: GATEWAYS,
      ports: portSet({ TCP: podPorts.map((port) => [port, port]) }),
      side: 'entering',
    },
    ...toCollector(environment),
    // Kubelet probes. Cilium always lets a node reach the pods that run on it.
    { from: ['own node'], to: [...SANDBOXES, 'proxy'], ports: ALL_PORTS },
    ...openingsOfMode(environment, egress),
  ]
}

/**
 * Open without the deny rules, and closed with them: an address of the API server that no output names is an address of
 * the internet to every rule by range.
 */
export const ONLY_DENIED: readonly Opening[] = [
  { from: ['proxy'], to: ['unknown api server'], ports: NO_RESOLVERS },
]

function toCollector(environment: Environment): Opening[] {
  const [, namespace = '', port] =
    /^http:\/\/[^.]+\.([^.]+)\.svc\.cluster\.local:(\d+)$/.exec(environment.traces?.collector ?? '') ?? []
  if (port === undefined) return []
  return [
    { from: ['api'], to: inNamespace(namespace, environment), ports: tcp(Number(port)), side: 'leaving' },
  ]
}

/** All endpoints in a namespace. Components that share a namespace share every rule that selects it. */
function inNamespace(namespace: string, { slice, infra }: Environment): EndpointId[] {
  const homes: readonly (readonly [EndpointId, string])[] = [
    ['dns', workloads(slice).clusterDns.namespace],
    ['monitoring', infra.monitoring.namespace],
    ['gateway controller', infra.gateway.controller.namespace],
  ]
  return homes.flatMap(([id, home]) => (home === namespace ? [id] : []))
}

function openingsOfMode(environment: Environment, egress: ResolvedEgress): Opening[] {
  const { infra } = environment
  const { mode } = environment.egress
  if (mode === 'closed') return []
  if (mode === 'proxy')
    return [
      { from: SANDBOXES, to: ['proxy'], ports: tcp(EGRESS_PROXY_PORT) },
      {
        from: inNamespace(infra.monitoring.namespace, environment),
        to: ['proxy'],
        ports: tcp(EGRESS_HEALTH_PORT),
      },
      { from: ['proxy'], to: ['dns'], ports: LOOKUPS },
      { from: ['proxy'], to: ['api'], ports: tcp(EGRESS_CONTROL_PORT) },
      { from: ['proxy'], to: ['internet'], ports: NO_RESOLVERS },
    ]
  const looksUp = (['agent', 'command'] as const).filter(
    (kind) => destinationsFor(egress.classes[kind], 'fqdn').length > 0,
  )
  return [{ from: looksUp.flatMap((kind) => [kind, `other ${kind}`] as const), to: ['dns'], ports: LOOKUPS }]
}

interface Pair {
  readonly from: EndpointId
  readonly to: EndpointId
}

/** Ports that must be open on one side of a connection. */
export function expectedOnSide(all: readonly Opening[], pair: Pair, side: Side): PortSet {
  return unite(
    all
      .filter((opening) => opening.from.includes(pair.from) && opening.to.includes(pair.to))
      .filter((opening) => opening.side === undefined || opening.side === side)
      .map(({ ports }) => ports),
  )
}

/**
 * Names that an endpoint may look up and connect to, with the ports. A name without ports may only be looked up.
 */
export function expectedNames(
  environment: Environment,
  egress: ResolvedEgress,
  endpoint: EndpointId,
): ReadonlyMap<string, readonly number[]> {
  const { azure, database, gateway } = environment.infra
  if (isGateway(endpoint))
    return new Map(controllerNames(gateway.controller.namespace).map((name) => [name, []]))
  if (endpoint === 'api')
    return new Map<string, readonly number[]>([
      [database.host, []],
      ...(azure
        ? [azure.loginHost, azure.vaults.controlPlane.host, azure.vaults.userTokens.host].map(
            (host) => [host, [443]] as const,
          )
        : []),
      ...namesOfIssuer(environment),
      ...namesOfGitHubApps(environment),
      ...namesOfCollector(environment),
    ])
  if (endpoint === 'database setup')
    return new Map<string, readonly number[]>(
      azure?.databaseSetup
        ? [
            [database.host, []],
            [azure.loginHost, [443]],
          ]
        : [],
    )
  return new Map(destinationsOf(environment, egress, endpoint).map(({ host, ports }) => [host, ports]))
}

/** The issuer of access tokens. Written apart from the policy generator. */
function namesOfIssuer({ signIn }: Environment): (readonly [string, readonly number[]])[] {
  if (signIn === undefined) return []
  const [, , host = ''] = signIn.issuer.split('/')
  return [host, ...(signIn.keysHost ? [signIn.keysHost] : [])].map((name) => [name, [443]] as const)
}

/** Where tokens of GitHub Apps are created. Written apart from the policy generator. */
function namesOfGitHubApps({
  egress: { credentials, upstreamProxy },
}: Environment): (readonly [string, readonly number[]])[] {
  const urls = (credentials ?? []).flatMap(({ githubApp }) => githubApp?.apiUrl ?? [])
  if (urls.length > 0 && upstreamProxy !== undefined) {
    const [host = ''] = upstreamProxy.url.slice('http://'.length).split(/:\d/)
    return /[a-z]/i.test(host) && !host.startsWith('[') ? [[host, []]] : []
  }
  return urls.map((url) => {
    const [host = '', port = '443'] = (url.split('/')[2] ?? '').split(':')
    return [host, [Number(port)]] as const
  })
}

/** Of traces. A Service is only looked up: its pods are peers by their namespace. */
function namesOfCollector({ traces }: Environment): (readonly [string, readonly number[]])[] {
  const [, , authority = ''] = traces?.collector.split('/') ?? []
  const [host = '', port = '443'] = authority.split(':')
  if (host === '') return []
  return [[host, host.endsWith('.svc.cluster.local') ? [] : [Number(port)]]]
}

/** Names of the Gateway controller, with the search domains that a resolver appends. */
const controllerNames = (namespace: string) =>
  ['', '.cluster.local', '.control-plane.svc.cluster.local', '.svc.cluster.local'].map(
    (search) => `controller.${namespace}.svc${search}`,
  )

function destinationsOf({ egress: { mode } }: Environment, egress: ResolvedEgress, endpoint: EndpointId) {
  const { agent, command } = egress.classes
  if (mode !== 'fqdn') return []
  if (endpoint === 'agent' || endpoint === 'other agent') return destinationsFor(agent, 'fqdn')
  return endpoint === 'command' || endpoint === 'other command' ? destinationsFor(command, 'fqdn') : []
}
