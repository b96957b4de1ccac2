import type { KubeObject } from '../../charts-src/kube-object.ts'
import { createEvaluator } from '../../reachability/evaluate.ts'
import type { ClusterFacts, Evaluator, PodFacts, Probe } from '../../reachability/model.ts'

type Spec = Readonly<Record<string, unknown>>

/** A NetworkPolicy in the namespace `a`, unless another one is given. */
export const aNetworkPolicy = (spec: Spec, { name = 'np', namespace = 'a' } = {}): KubeObject => ({
  apiVersion: 'networking.k8s.io/v1',
  kind: 'NetworkPolicy',
  metadata: { name, namespace },
  spec,
})

export const aCiliumPolicy = (spec: Spec, { name = 'cnp', namespace = 'a' } = {}): KubeObject => ({
  apiVersion: 'cilium.io/v2',
  kind: 'CiliumNetworkPolicy',
  metadata: { name, namespace },
  spec,
})

export const aClusterwidePolicy = (spec: Spec, name = 'ccnp'): KubeObject => ({
  apiVersion: 'cilium.io/v2',
  kind: 'CiliumClusterwideNetworkPolicy',
  metadata: { name },
  spec,
})

export const aPod = (name: string, more: Partial<PodFacts> = {}): PodFacts => ({
  namespace: 'a',
  name,
  labels: { app: name },
  ...more,
})

/**
 * Two namespaces with pods named after their label `app`, cluster DNS, two nodes, an API server outside, and a pod in
 * the network of its node.
 */
export const SMALL_WORLD: ClusterFacts = {
  namespaces: [
    { name: 'a', labels: { team: 'one' } },
    { name: 'b', labels: { team: 'two' } },
    { name: 'kube-system' },
  ],
  pods: [
    aPod('client', { ips: ['10.1.0.1'], node: 'n1' }),
    aPod('server', {
      ips: ['10.1.0.2'],
      node: 'n2',
      namedPorts: [{ name: 'http', port: 8080, protocol: 'TCP' }],
    }),
    aPod('other', { namespace: 'b', ips: ['10.1.0.3'], node: 'n1', serviceAccount: 'robot' }),
    aPod('on-host', { hostNetwork: true, node: 'n1', ips: ['10.2.0.1'] }),
    {
      namespace: 'kube-system',
      name: 'dns',
      labels: { 'k8s-app': 'kube-dns' },
      ips: ['10.1.0.9'],
      node: 'n2',
    },
  ],
  nodes: [
    { name: 'n1', ips: ['10.2.0.1'] },
    { name: 'n2', ips: ['10.2.0.2'] },
  ],
  apiServer: { ips: ['198.51.100.1'] },
  resolver: { namespace: 'kube-system', name: 'dns' },
}

export const pod = (name: string, namespace = 'a') => ({ kind: 'pod', namespace, name }) as const
export const address = (ip: string, ...learnedNames: string[]) =>
  ({ kind: 'address', ip, learnedNames }) as const
export const host = (name: string, ip?: string) =>
  ({ kind: 'name', name, ...(ip === undefined ? {} : { ip }) }) as const
export const entity = <T extends string>(name: T) => ({ kind: 'entity', entity: name }) as const

/** The evaluator of policies that are understood. */
export function evaluatorOf(policies: readonly KubeObject[], facts: ClusterFacts = SMALL_WORLD): Evaluator {
  const outcome = createEvaluator(policies, facts)
  if (!outcome.ok) throw new Error(JSON.stringify(outcome.faults, null, 2))
  return outcome.evaluator
}

/** One question; a port is a number of TCP, or a protocol and a number: `UDP 53`. */
export function from(source: Probe['from'], to: Probe['to'], at: number | string = 80): Probe {
  const [protocol = 'TCP', port = '0'] = typeof at === 'number' ? ['TCP', String(at)] : at.split(' ')
  return { from: source, to, protocol: protocol as Probe['protocol'], port: Number(port) }
}
