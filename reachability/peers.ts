import { type Address, formatAddress, parseAddress } from './address.ts'
import { createIdentities, type Identities, type Identity, type Peer } from './identity.ts'
import type { ClusterFacts, End, Entity, PodFacts } from './model.ts'

/** A documentation address (RFC 5737), which stands for any external address that no narrower rule contains. */
export const ANYWHERE = '203.0.113.7'

/** Creates the lookup from the ends of a probe to peers. */
export function createPeers(facts: ClusterFacts) {
  const identities = createIdentities(facts)
  const pods = new Map(facts.pods.map((pod) => [`${pod.namespace}/${pod.name}`, pod]))
  const byAddress = new Map(
    facts.pods
      .filter(({ hostNetwork }) => hostNetwork !== true)
      .flatMap((pod) => (pod.ips ?? []).map((ip) => [normal(ip), pod] as const)),
  )
  const nodes = new Map(
    (facts.nodes ?? []).flatMap(({ name, ips }) => ips.map((ip) => [normal(ip), name] as const)),
  )
  const apiServer = new Set((facts.apiServer?.ips ?? []).map(normal))
  const known = { identities, pods, byAddress, nodes, apiServer }
  const podPeers = new Map<PodFacts, Peer>()
  /**
   * Peers of pods outside the host network, cached by the `End` object: a matrix reuses the same objects for all its
   * probes.
   */
  const sameForAll = new WeakMap<End, Peer>()

  function ofPod(pod: PodFacts): Peer {
    const found = podPeers.get(pod)
    if (found) return found
    const identity = identities.ofPod(pod)
    const peer = { identity, names: [], pod, title: `pod ${pod.namespace}/${pod.name}`, ...nodeOf(pod) }
    podPeers.set(pod, peer)
    return peer
  }

  /**
   * `otherNode` is the node of the other end. An end on the same node is its `host`, any other node is a `remote-node`.
   */
  function find(end: End, otherNode: string | undefined): Peer {
    return sameForAll.get(end) ?? findNew(end, otherNode)
  }

  function findNew(end: End, otherNode: string | undefined): Peer {
    if (end.kind === 'entity') return ofEntity(known, end.entity)
    if (end.kind === 'address') return ofAddress(end.ip, end.learnedNames ?? [], otherNode)
    if (end.kind === 'name') return ofAddress(end.ip ?? ANYWHERE, [], otherNode)
    return ofPodNamed(end, otherNode)
  }

  function ofPodNamed(end: Extract<End, { kind: 'pod' }>, otherNode: string | undefined): Peer {
    const title = `pod ${end.namespace}/${end.name}`
    const pod = pods.get(`${end.namespace}/${end.name}`)
    if (pod === undefined) throw new Error(`There is no ${title} to ask about.`)
    if (pod.hostNetwork !== true) {
      sameForAll.set(end, ofPod(pod))
      return ofPod(pod)
    }
    return ofNode(known, { node: pod.node, otherNode, isApiServer: false, title })
  }

  function ofAddress(ip: string, names: readonly string[], otherNode: string | undefined): Peer {
    const address = parseAddress(ip)
    if (address === undefined) throw new Error(`"${ip}" is no address to ask about.`)
    const text = formatAddress(address)
    const pod = byAddress.get(text)
    if (pod) return ofPod(pod)
    const isApiServer = apiServer.has(text)
    const node = nodes.get(text)
    if (node !== undefined) return ofNode(known, { node, otherNode, isApiServer, title: text })
    return outside(identities, { address, names, isApiServer, title: text })
  }

  return { find, ofPod, identities }
}

interface Known {
  readonly identities: Identities
  readonly nodes: ReadonlyMap<string, string>
  readonly apiServer: ReadonlySet<string>
}

function ofEntity(known: Known, entity: Entity): Peer {
  const title = `entity ${entity}`
  const world = parseAddress(ANYWHERE)
  if (entity === 'world' && world)
    return outside(known.identities, { address: world, names: [], isApiServer: false, title })
  const [ip] = known.apiServer
  if (entity !== 'kube-apiserver' || ip === undefined)
    return { identity: known.identities.ofReserved(entity), names: [], title }
  const node = known.nodes.get(ip)
  if (node !== undefined) return ofNode(known, { node, otherNode: undefined, isApiServer: true, title })
  const address = parseAddress(ip) ?? world
  if (address === undefined) throw new Error(`The API server's address "${ip}" is none.`)
  return outside(known.identities, { address, names: [], isApiServer: true, title })
}

function ofNode(
  { identities }: Known,
  at: {
    readonly node: string | undefined
    readonly otherNode: string | undefined
    readonly isApiServer: boolean
    readonly title: string
  },
): Peer {
  const isSame = at.node !== undefined && at.node === at.otherNode
  const entities: Entity[] = [
    isSame ? 'host' : 'remote-node',
    ...(at.isApiServer ? ['kube-apiserver' as const] : []),
  ]
  return {
    identity: identities.ofReserved(...entities),
    names: [],
    ...(at.node === undefined ? {} : { node: at.node }),
    title: at.title,
  }
}

/** An external peer. It has the reserved label `world`, and only for it do CIDR rules and names apply. */
function outside(
  identities: Identities,
  {
    address,
    names,
    isApiServer,
    title,
  }: {
    readonly address: Address
    readonly names: readonly string[]
    readonly isApiServer: boolean
    readonly title: string
  },
): Peer {
  const identity: Identity = identities.ofReserved(
    'world',
    ...(isApiServer ? ['kube-apiserver' as const] : []),
  )
  return { identity, address, names, title }
}

const nodeOf = ({ node }: PodFacts) => (node === undefined ? {} : { node })

function normal(ip: string): string {
  const address = parseAddress(ip)
  if (address === undefined) throw new Error(`"${ip}" is no address.`)
  return formatAddress(address)
}
