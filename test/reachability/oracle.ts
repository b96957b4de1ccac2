import type { KubeObject } from '../../charts-src/kube-object.ts'
import type { PodFacts, Probe } from '../../reachability/model.ts'

interface Selector {
  readonly matchLabels?: Readonly<Record<string, string>>
  readonly matchExpressions?: readonly {
    readonly key: string
    readonly operator: string
    readonly values: string[]
  }[]
}
interface Peer {
  readonly podSelector?: Selector
  readonly namespaceSelector?: Selector
  readonly ipBlock?: { readonly cidr: string; readonly except?: readonly string[] }
}
interface Port {
  readonly port?: number | string
  readonly endPort?: number
  readonly protocol?: string
}
interface Rule {
  readonly from?: readonly Peer[]
  readonly to?: readonly Peer[]
  readonly ports?: readonly Port[]
}
interface Spec {
  readonly podSelector: Selector
  readonly policyTypes: readonly string[]
  readonly ingress?: readonly Rule[]
  readonly egress?: readonly Rule[]
}

/** An end for the oracle: a pod, or an address outside. */
export type Side = PodFacts | string

export interface OracleWorld {
  readonly namespaces: Readonly<Record<string, Readonly<Record<string, string>>>>
  readonly policies: readonly KubeObject[]
}

/**
 * The documentation of NetworkPolicy as simple, slow code, and ranges that select no pods. The evaluator is compared
 * with it.
 */
export function oracle(world: OracleWorld, { source, target, packet }: Connection): boolean {
  if (source === target) return true
  return (
    permits(world, 'Egress', { subject: source, other: target, target, packet }) &&
    permits(world, 'Ingress', { subject: target, other: source, target, packet })
  )
}

interface Connection {
  readonly source: Side
  readonly target: Side
  readonly packet: Pick<Probe, 'port' | 'protocol'>
}

interface Question {
  readonly subject: Side
  readonly other: Side
  readonly target: Side
  readonly packet: Pick<Probe, 'port' | 'protocol'>
}

function permits(world: OracleWorld, type: 'Ingress' | 'Egress', question: Question): boolean {
  const { subject } = question
  if (typeof subject === 'string') return true
  const selecting = world.policies.filter(({ metadata, ...rest }) => {
    const spec = rest['spec'] as Spec
    return (
      metadata.namespace === subject.namespace &&
      spec.policyTypes.includes(type) &&
      picks(spec.podSelector, subject.labels)
    )
  })
  if (selecting.length === 0) return true
  return selecting.some((policy) => {
    const spec = policy['spec'] as Spec
    const rules = (type === 'Ingress' ? spec.ingress : spec.egress) ?? []
    return rules.some((rule) => {
      const peers = rule.from ?? rule.to ?? []
      const isPeer =
        peers.length === 0 ||
        peers.some((peer) =>
          isMeant(world, peer, { namespace: policy.metadata.namespace ?? '', other: question.other }),
        )
      const ports = rule.ports ?? []
      return isPeer && (ports.length === 0 || ports.some((port) => isAt(port, question)))
    })
  })
}

function isMeant(world: OracleWorld, peer: Peer, of: { namespace: string; other: Side }): boolean {
  const { namespace, other } = of
  if (peer.ipBlock) return typeof other === 'string' && inBlock(peer.ipBlock, other)
  if (typeof other === 'string') return false
  const labels = { ...world.namespaces[other.namespace], 'kubernetes.io/metadata.name': other.namespace }
  const isThere = peer.namespaceSelector
    ? picks(peer.namespaceSelector, labels)
    : other.namespace === namespace
  return isThere && picks(peer.podSelector ?? {}, other.labels)
}

function isAt({ port, endPort, protocol = 'TCP' }: Port, { target, packet }: Question): boolean {
  if (protocol !== packet.protocol) return false
  if (port === undefined) return true
  if (typeof port === 'number') return packet.port >= port && packet.port <= (endPort ?? port)
  if (typeof target === 'string') return false
  return (target.namedPorts ?? []).some(
    (named) => named.name === port && named.protocol === protocol && named.port === packet.port,
  )
}

function picks(
  { matchLabels = {}, matchExpressions = [] }: Selector,
  labels: Readonly<Record<string, string>>,
): boolean {
  return (
    Object.entries(matchLabels).every(([key, value]) => labels[key] === value) &&
    matchExpressions.every(({ key, operator, values }) => {
      const value = labels[key]
      const isIn = value !== undefined && values.includes(value)
      return operator === 'In' ? isIn : !isIn
    })
  )
}

const inBlock = ({ cidr, except = [] }: { cidr: string; except?: readonly string[] }, ip: string): boolean =>
  inRange(cidr, ip) && !except.some((hole) => inRange(hole, ip))

function inRange(cidr: string, ip: string): boolean {
  const [network = '', bits = '32'] = cidr.split('/')
  const prefix = (text: string) =>
    text
      .split('.')
      .map((part) => Number(part).toString(2).padStart(8, '0'))
      .join('')
      .slice(0, Number(bits))
  return prefix(network) === prefix(ip)
}
