import type { KubeObject } from '../charts-src/kube-object.ts'
import { compileCiliumPolicy } from './compile-cilium-policy.ts'
import { compileNetworkPolicy } from './compile-network-policy.ts'
import type { CompiledRule } from './compiled-rule.ts'
import type { PolicyFault, PolicyObjects } from './model.ts'
import { type PolicyContext, titleOf } from './policy-context.ts'

/** Kinds that only fill or describe what others select, and open nothing by themselves. */
const HARMLESS = ['cilium.io/v2 CiliumNode', 'cilium.io/v2 CiliumIdentity', 'cilium.io/v2 CiliumEndpoint']

/** API groups whose kinds can change who reaches whom. */
const NETWORK_GROUPS =
  /^(?:cilium\.io|isovalent\.com|policy\.networking\.k8s\.io|(?:crd\.)?projectcalico\.org|networking\.gke\.io|acn\.azure\.com)\//

interface Compiled {
  readonly rules: readonly CompiledRule[]
  readonly faults: readonly PolicyFault[]
}

/**
 * The rules of all policies among the objects. Objects that are no policies are passed over, but a policy that is not
 * wholly understood, or that the agent would refuse, is a fault: the answer without it would be another one.
 */
export function compilePolicies(objects: PolicyObjects): Compiled {
  const compiled = objects.map(compileOnce)
  return { rules: compiled.flatMap(({ rules }) => rules), faults: compiled.flatMap(({ faults }) => faults) }
}

/** Objects are never changed in place, so one that was compiled for another question is not compiled again. */
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

/** What keeps these policies from being in force as they are written, or from being judged. */
export const policyFaults = (objects: PolicyObjects): readonly PolicyFault[] =>
  compilePolicies(objects).faults

/** Whether an object takes part in who reaches whom. */
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
