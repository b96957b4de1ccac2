import type { KubeObject } from '../charts-src/kube-object.ts'
import { createEvaluator } from '../reachability/evaluate.ts'
import type { ClusterFacts, End, Probe } from '../reachability/model.ts'
import { type Bench, figure } from './harness.ts'

const POLICIES = 500
const PODS = 500
/** Milliseconds for a whole matrix, policies read included. */
const BAR_MS = 2000
const ROUNDS = 5
const NAMESPACES = 25
const APPS = 20

const namespaceOf = (index: number) => `namespace-${index % NAMESPACES}`
const labelsOf = (index: number) => ({ app: `app-${index % APPS}`, 'app.kubernetes.io/name': `pod-${index}` })

/** Different in name and in every selector, so that nothing computed for one serves another by chance. */
function policy(index: number): KubeObject {
  const metadata = { name: `policy-${index}`, namespace: namespaceOf(index) }
  const app = { matchLabels: { app: `app-${index % APPS}` } }
  const peer = { matchLabels: { app: `app-${(index * 7) % APPS}`, 'app.kubernetes.io/name': `pod-${index}` } }
  const port = 1000 + index
  if (index % 2 === 0)
    return {
      apiVersion: 'networking.k8s.io/v1',
      kind: 'NetworkPolicy',
      metadata,
      spec: {
        podSelector: app,
        policyTypes: ['Ingress', 'Egress'],
        ingress: [{ from: [{ namespaceSelector: {}, podSelector: peer }], ports: [{ port }] }],
        egress: [
          { to: [{ namespaceSelector: {}, podSelector: app }, { ipBlock: { cidr: '203.0.113.0/24' } }] },
        ],
      },
    }
  return {
    apiVersion: 'cilium.io/v2',
    kind: 'CiliumNetworkPolicy',
    metadata,
    spec: {
      endpointSelector: app,
      ingress: [{ fromEndpoints: [peer], toPorts: [{ ports: [{ port: String(port), protocol: 'TCP' }] }] }],
      egressDeny: [
        { toEndpoints: [{ matchLabels: { 'k8s:io.kubernetes.pod.namespace': namespaceOf(index * 3) } }] },
      ],
    },
  }
}

const facts: ClusterFacts = {
  namespaces: Array.from({ length: NAMESPACES }, (_, index) => ({ name: namespaceOf(index) })),
  pods: Array.from({ length: PODS }, (_, index) => ({
    namespace: namespaceOf(index),
    name: `pod-${index}`,
    labels: labelsOf(index),
  })),
}

const pods: readonly Extract<End, { kind: 'pod' }>[] = facts.pods.map(({ namespace, name }) => ({
  kind: 'pod',
  namespace,
  name,
}))

/** Evaluates every ordered pair of pods once and counts the open ones, so that no evaluation can be skipped. */
function countOpen(isOpen: (probe: Probe) => boolean): number {
  let open = 0
  for (const from of pods)
    for (const to of pods) if (isOpen({ from, to, protocol: 'TCP', port: 1000 })) open += 1
  return open
}

/** The matrix of all pods over all policies, reading them included, against the mere walk over the same pairs. */
export const bench: Bench = {
  name: 'reachability',
  run: async () => {
    const samples = { baseline: [] as number[], value: [] as number[] }
    let open = 0
    for (let round = -1; round < ROUNDS; round++) {
      const policies = Array.from({ length: POLICIES }, (_, index) => policy(index))
      const baseline = milliseconds(() => countOpen(({ from, to }) => from !== to))
      const value = milliseconds(() => {
        const outcome = createEvaluator(policies, facts)
        if (!outcome.ok) throw new Error(JSON.stringify(outcome.faults[0]))
        open = countOpen(outcome.evaluator.isAllowed)
      })
      if (round < 0) continue
      samples.baseline.push(baseline)
      samples.value.push(value)
    }
    if (open === 0 || open === PODS * PODS) throw new Error('the policies make no difference')
    return figure({
      name: 'reachability matrix',
      unit: 'ms',
      measure: 'absolute',
      bar: BAR_MS,
      samples,
      note: `${POLICIES} policies, ${PODS} pods, ${PODS * PODS} pairs, ${open} of them open; the baseline walks over the pairs`,
    })
  },
}

function milliseconds(work: () => unknown): number {
  const started = performance.now()
  work()
  return performance.now() - started
}
