import { IDENTITY_AUDIENCE } from '../../contracts/configure.ts'
import { KATA_NODE_LABEL, KATA_TAINT, RUNTIME_CLASSES, SLICE_LABEL } from '../../contracts/labels.ts'
import { names } from '../../contracts/names.ts'
import { type AdmissionParameters, PARAMETER_OBJECT } from '../../policies/admission/parameters.ts'
import { ADMISSION_POLICIES } from '../../policies/admission/policies.ts'
import { EXCHANGE_TOKEN } from '../constructs/token-volumes.ts'
import type { Environment } from '../environment/schema.ts'
import type { KubeObject } from '../kube-object.ts'
import { clusterNames } from '../workloads.ts'
import { type PolicySettings, policyObjects, SANDBOXES_SUFFIX } from './policy-objects.ts'

/** Taints that Kubernetes adds to the tolerations of every pod. */
const DEFAULT_TOLERATIONS = ['node.kubernetes.io/not-ready', 'node.kubernetes.io/unreachable']

/**
 * Policies and bindings are cluster-scoped, so only the base slice renders them. Every slice renders its
 * parameters in each of its namespaces, the control plane's included: the API server looks for parameters
 * before it evaluates whether a policy matches, and rejects every pod of a namespace without them.
 */
export function admissionObjects(environment: Environment): KubeObject[] {
  const { slice } = environment
  const policies = slice.kind === 'base' ? policyObjects(ADMISSION_POLICIES, settingsOf(environment)) : []
  const { sandboxes, controlPlane, egress } = names(slice).namespaces
  const parameters = parametersOf(environment)
  return [
    ...policies,
    ...[sandboxes, controlPlane, egress].map((namespace) => parameterObject(namespace, parameters)),
  ]
}

function settingsOf({ gitops, slice }: Pick<Environment, 'gitops' | 'slice'>): PolicySettings {
  const { prefix } = names(slice)
  return {
    prefix,
    sliceLabel: SLICE_LABEL,
    gitopsIdentity: gitops.identity,
    breakGlassGroup: gitops.breakGlassGroup,
    ownNamespaces: `^(${prefix}|aw-pr-[a-z0-9-]+)(${SANDBOXES_SUFFIX}|-egress)?$`,
    sandboxNamespaces: `^(${prefix}|aw-pr-[a-z0-9-]+)${SANDBOXES_SUFFIX}$`,
    workspaceStorage: clusterNames().workspaceStorage,
  }
}

export function parameterObject(namespace: string, parameters: AdmissionParameters): KubeObject {
  const { apiVersion, kind, name } = PARAMETER_OBJECT
  return { apiVersion, kind, metadata: { name, namespace }, data: { ...parameters } }
}

export function parametersOf({ slice, isolation, sizes, images, egress }: Environment): AdmissionParameters {
  const { pool, namespaces, serviceAccounts, executorKeys } = names(slice)
  return {
    pools: [pool('agent'), pool('command')].join(','),
    apiIdentity: `system:serviceaccount:${namespaces.controlPlane}:${serviceAccounts.api}`,
    maxLife: `${sizes.runs.maxHours}h`,
    agentAccount: serviceAccounts.agentHost,
    commandAccount: serviceAccounts.commandHost,
    agentAudiences: [IDENTITY_AUDIENCE, EXCHANGE_TOKEN.audience].join(','),
    commandAudiences: IDENTITY_AUDIENCE,
    ...boundaryOf(isolation),
    priorityClass: clusterNames().priorityClasses.sandbox,
    dnsPolicy: egress.mode === 'fqdn' ? 'ClusterFirst' : 'None',
    agentHostRepository: withoutDigest(images.agentHost),
    toolboxRepository: withoutDigest(images.toolbox),
    executorKeys,
  }
}

function boundaryOf(
  isolation: Environment['isolation'],
): Pick<AdmissionParameters, 'runtimeClass' | 'nodeLabel' | 'tolerations'> {
  const isKata = isolation === 'kata'
  return {
    runtimeClass: isolation === 'none' ? '' : RUNTIME_CLASSES[isolation].name,
    nodeLabel: isKata ? `${KATA_NODE_LABEL.key}=${KATA_NODE_LABEL.value}` : '',
    tolerations: [...(isKata ? [KATA_TAINT.key] : []), ...DEFAULT_TOLERATIONS].join(','),
  }
}

function withoutDigest(image: string): string {
  return image.slice(0, image.indexOf('@'))
}
