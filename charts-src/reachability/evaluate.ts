import { contains } from './address.ts'
import { compilePolicies } from './compile-policies.ts'
import type { CompiledRule, Direction, PeerMatch, PortMatch } from './compiled-rule.ts'
import { explain } from './explain.ts'
import type { Peer } from './identity.ts'
import type {
  Answer,
  ClusterFacts,
  End,
  Evaluator,
  EvaluatorOutcome,
  PolicyObjects,
  Probe,
  Verdict,
} from './model.ts'
import { ANYWHERE, createPeers } from './peers.ts'
import { createPortNames, type PortNames } from './port-names.ts'
import { ALL_PORTS, intersect, type PortRange, type PortSet, portSet, subtract, unite } from './port-set.ts'
import { createSelectionCache, type SelectionCache } from './selection-cache.ts'

const DNS_PORT = 53

/**
 * Builds the evaluator of a set of policies over what they act on. The semantics are those of Cilium 1.20 as policy
 * engine: allows add up, a pod that any default-deny rule selects is closed for the rest of that direction, deny
 * rules win, and ranges select neither pods nor nodes.
 */
export function createEvaluator(policies: PolicyObjects, facts: ClusterFacts): EvaluatorOutcome {
  const { rules, faults } = compilePolicies(policies)
  if (faults.length > 0) return { ok: false, faults }
  const peers = createPeers(facts)
  const context: Context = {
    rules,
    peers,
    facts,
    selections: createSelectionCache(),
    portNames: createPortNames(facts, peers),
    rulesOf: { ingress: new Map(), egress: new Map() },
  }
  const evaluator: Evaluator = {
    evaluate: (probe) => explain(probe, judge(context, probe)),
    isAllowed: (probe) => judge(context, probe).allowed,
    openPorts: (from, to) => openPorts(context, from, to),
  }
  return { ok: true, evaluator }
}

interface Context {
  readonly rules: readonly CompiledRule[]
  readonly peers: ReturnType<typeof createPeers>
  readonly facts: ClusterFacts
  readonly selections: SelectionCache
  readonly portNames: PortNames
  readonly rulesOf: Readonly<Record<Direction, Map<number, readonly CompiledRule[]>>>
}

type Packet = Pick<Probe, 'protocol' | 'port'>
type Judgement = Omit<Answer, 'why'>

function judge(context: Context, probe: Probe): Judgement {
  return probe.to.kind === 'name'
    ? judgeName(context, probe, probe.to)
    : judgeConnection(context, probe, endsOf(context, probe.from, probe.to))
}

interface Ends {
  readonly from: Peer
  readonly to: Peer
}

/** Whether an end is the node's own depends on the node of the other. */
function endsOf({ peers }: Context, from: End, to: End): Ends {
  const target = peers.find(to, undefined)
  const source = peers.find(from, target.node)
  return { from: source, to: source.node === undefined ? target : peers.find(to, source.node) }
}

function judgeConnection(context: Context, packet: Packet, { from, to }: Ends): Judgement {
  if (from.pod !== undefined && from.pod === to.pod) {
    const inside: Verdict = { allowed: true, because: 'it never leaves the pod' }
    return { allowed: true, egress: inside, ingress: inside }
  }
  const egress = verdict(context, packet, { direction: 'egress', subject: from, peer: to })
  const ingress = verdict(context, packet, { direction: 'ingress', subject: to, peer: from })
  return { allowed: egress.allowed && ingress.allowed, egress, ingress }
}

/** A name is looked up at the cluster's resolver; only a lookup that the agent reads teaches it the address. */
function judgeName(context: Context, probe: Probe, to: Extract<End, { kind: 'name' }>): Judgement {
  const lookup = judgeLookup(context, probe.from, to.name)
  const learnedNames = lookup.isRead ? [to.name] : []
  const { peers } = context
  const from = peers.find(probe.from, undefined)
  const address = { kind: 'address', ip: to.ip ?? ANYWHERE, learnedNames } as const
  const connection = judgeConnection(context, probe, { from, to: peers.find(address, from.node) })
  return { ...connection, allowed: lookup.verdict.allowed && connection.allowed, lookup: lookup.verdict }
}

interface Lookup {
  readonly verdict: Verdict
  /** Whether the answer passes through the agent. */
  readonly isRead: boolean
}

function judgeLookup(context: Context, source: End, name: string): Lookup {
  const { facts, peers } = context
  if (facts.resolver === undefined)
    return { verdict: { allowed: false, because: 'there is no resolver' }, isRead: false }
  const ends = endsOf(context, source, { kind: 'pod', ...facts.resolver })
  const packet = { protocol: 'UDP', port: DNS_PORT } as const
  const { allowed, egress, ingress } = judgeConnection(context, packet, ends)
  if (!allowed) return { verdict: egress.allowed ? ingress : egress, isRead: false }
  if (ends.from.pod === undefined) return { verdict: egress, isRead: false }
  const subject = peers.find(source, undefined)
  return readLookup(context, { direction: 'egress', subject, peer: ends.to }, { name, otherwise: egress })
}

/**
 * A rule with `rules.dns` turns every lookup at its port over to the agent, which then lets a name pass if any rule of
 * exactly that port to that resolver does: one that lists it, or one that lists no names at all. Where no rule closes
 * the pod, the agent reads the lookups and refuses none.
 */
function readLookup(
  context: Context,
  side: Side,
  { name, otherwise }: { readonly name: string; readonly otherwise: Verdict },
): Lookup {
  const packet = { protocol: 'UDP', port: DNS_PORT } as const
  const rules = rulesFor(context, side)
  const reached = rules.filter((rule) => !rule.isDeny && matchesPeer(context, rule, side.peer))
  const atPort = reached.flatMap((rule) =>
    rule.ports === 'all'
      ? []
      : rule.ports
          .filter((port) => isExactly(port, packet))
          .map(({ lookups }) => ({ lookups, ref: rule.ref })),
  )
  if (!atPort.some(({ lookups }) => lookups !== undefined)) return { verdict: otherwise, isRead: false }
  if (!rules.some(({ isDefaultDeny }) => isDefaultDeny)) return { verdict: otherwise, isRead: true }
  const allowing = atPort.find(({ lookups }) => lookups === undefined || lookups(name))
  return allowing
    ? { verdict: { allowed: true, because: 'rule', rule: allowing.ref }, isRead: true }
    : { verdict: { allowed: false, because: 'the name is not listed' }, isRead: true }
}

const isExactly = ({ protocol, first, last, name }: PortMatch, packet: Packet) =>
  name === undefined && protocol === packet.protocol && first === packet.port && last === packet.port

/** Every port at once, by adding up and taking away what the rules say. */
function openPorts(context: Context, source: Probe['from'], target: Exclude<End, { kind: 'name' }>): PortSet {
  const { from, to } = endsOf(context, source, target)
  if (from.pod !== undefined && from.pod === to.pod) return ALL_PORTS
  return intersect(
    portsOfSide(context, { direction: 'egress', subject: from, peer: to }),
    portsOfSide(context, { direction: 'ingress', subject: to, peer: from }),
  )
}

function portsOfSide(context: Context, side: Side): PortSet {
  if (side.subject.pod === undefined) return ALL_PORTS
  const rules = rulesFor(context, side)
  const meant = rules.filter((rule) => matchesPeer(context, rule, side.peer))
  const portsOf = (isDeny: boolean) =>
    unite(
      meant.filter((rule) => rule.isDeny === isDeny).map((rule) => portsOfRule(context, { ...side, rule })),
    )
  const isOpen = rules.length === 0 || withoutRule(rules, side).allowed
  return subtract(isOpen ? ALL_PORTS : portsOf(false), portsOf(true))
}

function portsOfRule(context: Context, side: Side & { readonly rule: CompiledRule }): PortSet {
  const { ports } = side.rule
  if (ports === 'all') return ALL_PORTS
  return unite(ports.map((port) => portSet({ [port.protocol]: rangesOf(context, side, port) })))
}

interface Side {
  readonly direction: Direction
  /** Whose policies are asked. */
  readonly subject: Peer
  /** The other end. */
  readonly peer: Peer
}

const OPEN: Verdict = { allowed: true, because: 'no policy selects it' }
const NO_POD: Verdict = { allowed: true, because: 'no policy of a pod applies to it' }
const CLOSED: Verdict = { allowed: false, because: 'default deny' }
const OWN_NODE: Verdict = { allowed: true, because: 'the agent lets a node reach its own pods' }

function verdict(context: Context, packet: Packet, side: Side): Verdict {
  if (side.subject.pod === undefined) return NO_POD
  const rules = rulesFor(context, side)
  if (rules.length === 0) return OPEN
  const denying = rules.find((rule) => rule.isDeny && matches(context, packet, { ...side, rule }))
  if (denying) return { allowed: false, because: 'deny rule', rule: denying.ref }
  const allowing = rules.find((rule) => !rule.isDeny && matches(context, packet, { ...side, rule }))
  if (allowing) return { allowed: true, because: 'rule', rule: allowing.ref }
  return withoutRule(rules, side)
}

/** What holds where no rule says anything about the packet. */
function withoutRule(rules: readonly CompiledRule[], { direction, peer }: Side): Verdict {
  if (!rules.some(({ isDefaultDeny }) => isDefaultDeny))
    return { allowed: true, because: 'only default-allow policies select it' }
  return direction === 'ingress' && peer.identity.labels.has('reserved:host') ? OWN_NODE : CLOSED
}

function rulesFor(
  { rules, rulesOf, selections }: Context,
  { direction, subject }: Side,
): readonly CompiledRule[] {
  const { identity } = subject
  const known = rulesOf[direction].get(identity.id)
  if (known) return known
  const own = rules.filter(
    (rule) => rule.direction === direction && selections.selects(rule.subject, identity),
  )
  rulesOf[direction].set(identity.id, own)
  return own
}

function matches(context: Context, packet: Packet, side: Side & { readonly rule: CompiledRule }): boolean {
  const { rule } = side
  return matchesPorts(context, packet, side) && matchesPeer(context, rule, side.peer)
}

function matchesPorts(
  context: Context,
  packet: Packet,
  side: Side & { readonly rule: CompiledRule },
): boolean {
  const { ports } = side.rule
  if (ports === 'all') return true
  return ports
    .filter(({ protocol }) => protocol === packet.protocol)
    .some((port) =>
      rangesOf(context, side, port).some(([first, last]) => first <= packet.port && packet.port <= last),
    )
}

/** A port's numbers; a name stands for those of the pod that is entered. */
function rangesOf(
  { portNames }: Context,
  side: Side,
  { name, protocol, first, last }: PortMatch,
): PortRange[] {
  if (name === undefined) return [[first, last]]
  const numbers =
    side.direction === 'ingress'
      ? portNames.ofPod(side.subject, { name, protocol })
      : portNames.ofIdentity(side.peer, { name, protocol })
  return numbers.map((number) => [number, number])
}

function matchesPeer({ selections }: Context, { peers }: CompiledRule, peer: Peer): boolean {
  return peers === 'anyone' || peers.some((match) => isMeant(selections, match, peer))
}

function isMeant(selections: SelectionCache, match: PeerMatch, peer: Peer): boolean {
  if (match.kind === 'selector') return selections.selects(match.selector, peer.identity)
  if (match.kind === 'names') return peer.names.some(match.matches)
  const { address } = peer
  return (
    address !== undefined &&
    contains(match.range, address) &&
    !match.except.some((range) => contains(range, address))
  )
}
