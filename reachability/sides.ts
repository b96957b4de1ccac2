import { contains } from './address.ts'
import type { CompiledRule, Direction, PeerMatch, PortMatch } from './compiled-rule.ts'
import type { Peer } from './identity.ts'
import type { ClusterFacts, Probe, Verdict } from './model.ts'
import type { createPeers } from './peers.ts'
import { portNumber } from './port-names.ts'
import { ALL_PORTS, type PortRange, type PortSet, portSet, subtract, unite } from './port-set.ts'
import type { SelectionCache } from './selection-cache.ts'

/** Shared state of one evaluator. */
export interface Context {
  readonly rules: readonly CompiledRule[]
  readonly peers: ReturnType<typeof createPeers>
  readonly facts: ClusterFacts
  readonly selections: SelectionCache
  readonly rulesOf: Readonly<Record<Direction, Map<number, readonly CompiledRule[]>>>
}

export type Packet = Pick<Probe, 'protocol' | 'port'>

/** Returns all ports that one side allows by itself. */
export function portsOfSide(context: Context, side: Side): PortSet {
  if (side.subject.pod === undefined) return ALL_PORTS
  const rules = rulesFor(context, side)
  if (rules.length === 0) return ALL_PORTS
  const meant = rules.filter((rule) => matchesPeer(context, rule, side.peer))
  const portsOf = (isDeny: boolean) =>
    unite(meant.filter((rule) => rule.isDeny === isDeny).map((rule) => portsOfRule(side, rule)))
  return subtract(withoutRule(rules, side).allowed ? ALL_PORTS : portsOf(false), portsOf(true))
}

function portsOfRule(side: Side, { ports }: CompiledRule): PortSet {
  if (ports === 'all') return ALL_PORTS
  return unite(ports.map((port) => portSet({ [port.protocol]: rangesOf(side, port) })))
}

/** One side of a connection: the policies of `subject` are evaluated for the peer. */
export interface Side {
  readonly direction: Direction
  /** The end whose policies are evaluated. */
  readonly subject: Peer
  /** The other end. */
  readonly peer: Peer
}

const OPEN: Verdict = { allowed: true, because: 'no policy selects it' }
const NO_POD: Verdict = { allowed: true, because: 'no policy of a pod applies to it' }
const CLOSED: Verdict = { allowed: false, because: 'default deny' }
const OWN_NODE: Verdict = { allowed: true, because: 'the agent lets a node reach its own pods' }

/** Returns the verdict of one side for one packet. */
export function verdict(context: Context, packet: Packet, side: Side): Verdict {
  if (side.subject.pod === undefined) return NO_POD
  const rules = rulesFor(context, side)
  if (rules.length === 0) return OPEN
  const question = { packet, side }
  const denying = rules.find((rule) => rule.isDeny && matches(context, question, rule))
  if (denying) return { allowed: false, because: 'deny rule', rule: denying.ref }
  const allowing = rules.find((rule) => !rule.isDeny && matches(context, question, rule))
  if (allowing) return { allowed: true, because: 'rule', rule: allowing.ref }
  return withoutRule(rules, side)
}

interface Question {
  readonly packet: Packet
  readonly side: Side
}

/** Returns the verdict for a packet that no rule matches. */
function withoutRule(rules: readonly CompiledRule[], { direction, peer }: Side): Verdict {
  if (!rules.some(({ isDefaultDeny }) => isDefaultDeny))
    return { allowed: true, because: 'only default-allow policies select it' }
  return direction === 'ingress' && peer.identity.labels.has('reserved:host') ? OWN_NODE : CLOSED
}

export function rulesFor(
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

const matches = (context: Context, question: Question, rule: CompiledRule): boolean =>
  matchesPorts(question, rule) && matchesPeer(context, rule, question.side.peer)

function matchesPorts({ packet, side }: Question, { ports }: CompiledRule): boolean {
  if (ports === 'all') return true
  return ports.some(
    (port) =>
      port.protocol === packet.protocol &&
      rangesOf(side, port).some(([first, last]) => first <= packet.port && packet.port <= last),
  )
}

/** Returns the numbers of a port. A port name is resolved in the target pod. */
function rangesOf({ direction, subject, peer }: Side, port: PortMatch): PortRange[] {
  const { name, protocol, first, last } = port
  if (name === undefined) return [[first, last]]
  const { pod } = direction === 'ingress' ? subject : peer
  const number = pod && portNumber(pod, { name, protocol })
  return number === undefined ? [] : [[number, number]]
}

export function matchesPeer({ selections }: Context, { peers }: CompiledRule, peer: Peer): boolean {
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
