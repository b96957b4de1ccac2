import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Topology as Cast, topologyOf } from '../../../charts-src/access-matrix/endpoints.ts'
import { addNetwork } from '../../../charts-src/apps/network.ts'
import { loadEnvironment } from '../../../charts-src/environment/load-environment.ts'
import { placeholderValues } from '../../../charts-src/environment/placeholder-values.ts'
import type { Environment } from '../../../charts-src/environment/schema.ts'
import { chartObjects } from '../../../charts-src/tree/chart-objects.ts'
import type { KubeObject } from '../../../devcluster/client/kube-object.ts'
import { readManifests } from '../../../devcluster/client/manifests.ts'
import { readEgressPolicy } from '../../../policies/agent/egress/load.ts'
import { type ResolvedEgress, resolveEgress } from '../../../policies/agent/egress/resolve.ts'
import { isPolicy } from '../../../reachability/compile-policies.ts'
import { READER } from '../../charts/fixture.ts'

const ROOT = join(import.meta.dirname, '..', '..', '..')

/** The committed tree of one environment: the files below `gitops/`, not a new rendering. */
export interface CommittedTree {
  /** Name of the tree in test titles. */
  readonly name: string
  readonly environment: Environment
  readonly egress: ResolvedEgress
  readonly policies: readonly KubeObject[]
  /** Everybody that its matrix speaks of. */
  readonly cast: Cast
}

export function readCommittedTree(name: string): CommittedTree {
  const loaded = loadEnvironment(name, readFileSync(join(ROOT, 'environments', `${name}.json`), 'utf8'))
  if (!loaded.ok) throw new Error(loaded.mistakes.join('\n'))
  const { environment } = loaded
  // A kustomization is a file of the tree, but no object of the cluster.
  const objects = readManifests(join(ROOT, 'gitops', name)).filter(({ kind }) => kind !== 'Kustomization')
  return {
    name,
    environment,
    egress: resolveEgress(readEgressPolicy(), placeholderValues(environment)),
    policies: objects.filter(isPolicy),
    cast: topologyOf(objects, environment),
  }
}

/** On Azure in mode `fqdn`, AgentHost has an identity. */
function withReader({ azure, ...rest }: Environment['infra']): Environment['infra'] {
  if (!azure) return rest
  return {
    ...rest,
    azure: { ...azure, identities: { ...azure.identities, agentHost: { clientId: READER } } },
  }
}

/** The policies that a tree would have in a mode that no committed environment uses. */
export function inMode(tree: CommittedTree, mode: 'fqdn' | 'closed'): CommittedTree {
  const { egressProxy: _proxy, ...sizes } = tree.environment.sizes
  // No agent reaches a model from a closed cluster, so its environment names none.
  const models = mode === 'closed' ? {} : tree.environment.models
  const infra = mode === 'fqdn' ? withReader(tree.environment.infra) : tree.environment.infra
  const environment: Environment = { ...tree.environment, models, sizes, infra, egress: { mode } }
  const policies = chartObjects((chart) => addNetwork(chart, environment, readEgressPolicy())).filter(
    isPolicy,
  ) as KubeObject[]
  return {
    ...tree,
    name: `${tree.name} in mode ${mode}`,
    environment,
    egress: resolveEgress(readEgressPolicy(), placeholderValues(environment)),
    policies,
  }
}

/** Adds a careless policy to a tree: it allows all ingress and egress for every pod of a namespace. */
export function besideBroadAllows(tree: CommittedTree): CommittedTree {
  const namespaces = [...new Set(tree.policies.map(({ metadata }) => metadata.namespace))]
  const allows = namespaces.map((namespace) => ({
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    metadata: { name: 'in-a-hurry', ...(namespace === undefined ? {} : { namespace }) },
    spec: { podSelector: {}, policyTypes: ['Ingress', 'Egress'], ingress: [{}], egress: [{}] },
  }))
  return {
    ...tree,
    name: `${tree.name} beside a policy that opens everything`,
    policies: [...tree.policies, ...allows],
  }
}

/** Every name that a policy of the tree speaks of; of a pattern, one name that it matches. */
export function namesIn({ policies }: CommittedTree): string[] {
  const found = [...JSON.stringify(policies).matchAll(/"match(?:Name|Pattern)":"([^"]+)"/g)]
  return [...new Set(found.map(([, name = '']) => name.replaceAll('*', 'probe')))].sort()
}
