import type { KubeObject } from '../charts-src/kube-object.ts'
import { compileCiliumPolicy } from './compile-cilium-policy.ts'
import { compileNetworkPolicy } from './compile-network-policy.ts'
import type { CompiledRule } from './compiled-rule.ts'
import type { PolicyFault, PolicyObjects } from './model.ts'
import { type PolicyContext, titleOf } from './policy-context.ts'

/** Kinds that describe selected objects and do not open connections. */
const HARMLESS = ['cilium.io/v2 CiliumNode', 'cilium.io/v2 CiliumIdentity', 'cilium.io/v2 CiliumEndpoint']

/** API groups whose kinds can change which connections are allowed. */
const NETWORK_GROUPS =
  /^(?:cilium\.io|isovalent\.com|policy\.networking\.k8s\.io|(?:crd\.)?projectcalico\.org|networking\.gke\.io|acn\.azure\.com)\//

interface Compiled {
  readonly rules: readonly CompiledRule[]
  readonly faults: readonly PolicyFault[]
}

/**
 * Compiles all policies among the objects and ignores objects that are not policies. A policy with an unknown field, or
 * one that the agent would reject, is a fault: verdicts without it would be wrong.
 */
export function compilePolicies(objects: PolicyObjects): Compiled {
  const compiled = objects.map(compileOnce)
  return { rules: compiled.flatMap(({ rules }) => rules), faults: compiled.flatMap(({ faults }) => faults) }
}

/** Compiled policies by object. Objects are never changed in place, so each one is compiled once. */
const COMPILED = new WeakMap<KubeObject, Compiled>()

function compileOnce(object: KubeObject): Compiled {
  const known = COMPILED.get(object)
  if (known) return known
  const faults: PolicyFault[] = []
  const context = { policy: titleOf(object), namespace: object.metadata.namespace, faults }
  const compiled = { rules: compileOne(context, object), faults }
  COMPILED.set(object, compiled)
  return compiled
}

/** Returns the reasons why these policies cannot be enforced as written, or cannot be evaluated. */
export const policyFaults = (objects: PolicyObjects): readonly PolicyFault[] =>
  compilePolicies(objects).faults

/** Whether an object can influence reachability. */
export const isPolicy = ({ apiVersion, kind }: KubeObject): boolean =>
  (apiVersion.startsWith('networking.k8s.io/') && kind === 'NetworkPolicy') ||
  (NETWORK_GROUPS.test(apiVersion) && !HARMLESS.includes(`${apiVersion} ${kind}`))

function compileOne(context: PolicyContext, object: KubeObject): CompiledRule[] {
  const kind = `${object.apiVersion} ${object.kind}`
  if (!isPolicy(object)) return []
  if (kind === 'networking.k8s.io/v1 NetworkPolicy') return compileNetworkPolicy(context, object)
  if (kind === 'cilium.io/v2 CiliumNetworkPolicy' || kind === 'cilium.io/v2 CiliumClusterwideNetworkPolicy')
    return compileCiliumPolicy(context, object)
  context.faults.push({
    kind: 'not understood',
    policy: context.policy,
    path: 'kind',
    reason: `${kind} can change who reaches whom and is not evaluated here`,
  })
  return []
}
