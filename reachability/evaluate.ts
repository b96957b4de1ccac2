import { compilePolicies } from './compile-policies.ts'
import type { PortMatch } from './compiled-rule.ts'
import { explain } from './explain.ts'
import type { Peer } from './identity.ts'
import type {
  Answer,
  ClusterFacts,
  End,
  Evaluator,
  EvaluatorOutcome,
  OpenSides,
  PolicyObjects,
  Probe,
  Verdict,
} from './model.ts'
import { ANYWHERE, createPeers } from './peers.ts'
import { ALL_PORTS, intersect } from './port-set.ts'
import { createSelectionCache } from './selection-cache.ts'
import { type Context, matchesPeer, type Packet, portsOfSide, rulesFor, type Side, verdict } from './sides.ts'

const DNS_PORT = 53

/**
 * Builds the evaluator for a set of policies and the facts of a cluster. It follows Cilium 1.20 as policy engine: allow
 * rules add up, deny rules override them, a pod that a default-deny rule selects is closed for everything else in that
 * direction, and CIDR rules select neither pods nor nodes.
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
    rulesOf: { ingress: new Map(), egress: new Map() },
  }
  const evaluator: Evaluator = {
    evaluate: (probe) => explain(probe, judge(context, probe)),
    isAllowed: (probe) => judge(context, probe).allowed,
    openPorts: (from, to) => {
      const { egress, ingress } = openSides(context, from, to)
      return intersect(egress, ingress)
    },
    openSides: (from, to) => openSides(context, from, to),
  }
  return { ok: true, evaluator }
}

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

/** Resolves both ends. Whether an end is the local host depends on the node of the other end. */
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

/** A name is resolved by the cluster's resolver. The agent learns the address only from a lookup that it inspects. */
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
  /** Whether the agent inspects the lookup. */
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
 * A rule with `rules.dns` redirects every lookup at its port to the agent. The agent allows a name if a rule for
 * exactly that port and resolver lists it or lists no names at all. If no rule makes the pod default-deny, the agent
 * inspects the lookups and allows all of them.
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

/** Returns the open ports of each side separately, for all ports at once. */
function openSides(
  context: Context,
  source: Probe['from'],
  target: Exclude<End, { kind: 'name' }>,
): OpenSides {
  const { from, to } = endsOf(context, source, target)
  if (from.pod !== undefined && from.pod === to.pod) return { egress: ALL_PORTS, ingress: ALL_PORTS }
  return {
    egress: portsOfSide(context, { direction: 'egress', subject: from, peer: to }),
    ingress: portsOfSide(context, { direction: 'ingress', subject: to, peer: from }),
  }
}
