import type { KubeObject } from '../charts-src/kube-object.ts'
import { covers, type Range } from './address.ts'
import { compilePolicies } from './compile-policies.ts'
import { createIdentities } from './identity.ts'
import type { ClusterFacts, PodFacts } from './model.ts'
import { selects } from './selector.ts'

/** Ranges that policies deny to a pod whole and by name, at every port. */
export function rangesDeniedTo(objects: readonly KubeObject[], facts: ClusterFacts, pod: PodFacts): Range[] {
  const { labels } = createIdentities(facts).ofPod(pod)
  return compilePolicies(objects)
    .rules.filter(({ direction, isDeny, ports }) => direction === 'egress' && isDeny && ports === 'all')
    .filter(({ subject }) => selects(subject, labels))
    .flatMap(({ peers }) => (peers === 'anyone' ? [] : peers))
    .flatMap((peer) => (peer.kind === 'range' && peer.except.length === 0 ? [peer.range] : []))
}

/** Whether one of the ranges is exactly this one. */
export const includesRange = (ranges: readonly Range[], range: Range): boolean =>
  ranges.some((one) => covers(one, range) && covers(range, one))
