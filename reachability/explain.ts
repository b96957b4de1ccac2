import type { Answer, End, Probe, Verdict } from './model.ts'

/** Adds the explanation of a verdict as one sentence. */
export function explain(probe: Probe, judgement: Omit<Answer, 'why'>): Answer {
  return { ...judgement, why: sentence(probe, judgement) }
}

function sentence(probe: Probe, { allowed, egress, ingress, lookup }: Omit<Answer, 'why'>): string {
  if (allowed) return `allowed: leaving, ${reason(egress)}; entering, ${reason(ingress)}`
  if (lookup && !lookup.allowed) return `denied at the lookup of ${nameOf(probe.to)}: ${reason(lookup)}`
  if (!egress.allowed) return `denied on leaving ${nameOf(probe.from)}: ${reason(egress)}`
  return `denied on entering ${nameOf(probe.to)}: ${reason(ingress)}`
}

const reason = ({ because, rule }: Verdict): string =>
  rule === undefined ? because : `${because} ${rule.path} of ${rule.policy}`

/** Describes one end of a connection for use in a sentence. */
export function nameOf(end: End): string {
  if (end.kind === 'pod') return `${end.namespace}/${end.name}`
  if (end.kind === 'address') return end.ip
  return end.kind === 'name' ? end.name : end.entity
}
