import type { Answer, End, Probe, Verdict } from './model.ts'

/** Puts an answer into one sentence. */
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

/** How to call an end in a sentence. */
export function nameOf(end: End): string {
  if (end.kind === 'pod') return `${end.namespace}/${end.name}`
  if (end.kind === 'address') return end.ip
  return end.kind === 'name' ? end.name : end.entity
}
