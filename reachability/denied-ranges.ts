import type { KubeObject } from '../charts-src/kube-object.ts'
import { covers, type Range } from './address.ts'
import { compilePolicies } from './compile-policies.ts'
import { createIdentities } from './identity.ts'
import type { ClusterFacts, PodFacts } from './model.ts'
import { selects } from './selector.ts'

/** Returns the ranges that policies explicitly deny to a pod, completely and at every port. */
export function rangesDeniedTo(objects: readonly KubeObject[], facts: ClusterFacts, pod: PodFacts): Range[] {
  const { labels } = createIdentities(facts).ofPod(pod)
  return compilePolicies(objects)
    .rules.filter(({ direction, isDeny, ports }) => direction === 'egress' && isDeny && ports === 'all')
    .filter(({ subject }) => selects(subject, labels))
    .flatMap(({ peers }) => (peers === 'anyone' ? [] : peers))
    .flatMap((peer) => (peer.kind === 'range' && peer.except.length === 0 ? [peer.range] : []))
}

/** Whether the list contains exactly this range. */
export const includesRange = (ranges: readonly Range[], range: Range): boolean =>
  ranges.some((one) => covers(one, range) && covers(range, one))
