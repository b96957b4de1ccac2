import type { Construct } from 'constructs'
import { IDENTITY_AUDIENCE } from '../../contracts/configure.ts'
import { KATA_NODE_LABEL, KATA_TAINT, RUNTIME_CLASSES, SLICE_LABEL } from '../../contracts/labels.ts'
import { names } from '../../contracts/names.ts'
import { type AdmissionParameters, PARAMETER_OBJECT } from '../../policies/admission/parameters.ts'
import { ADMISSION_POLICIES } from '../../policies/admission/policies.ts'
import { BoundPolicy, type PolicySettings, SANDBOXES_SUFFIX } from '../admission/bound-policy.ts'
import { EXCHANGE_TOKEN } from '../constructs/token-volumes.ts'
import type { Environment } from '../environment/schema.ts'
import { vaultReader } from '../environment/vault-reader.ts'
import { KubeConfigMap } from '../imports/k8s.js'
import { clusterNames } from '../workloads.ts'

/** Taints that Kubernetes adds to the tolerations of every pod. */
const DEFAULT_TOLERATIONS = ['node.kubernetes.io/not-ready', 'node.kubernetes.io/unreachable']

/**
 * Policies and bindings are cluster-scoped, so only the base slice renders them. Every slice renders its
 * parameters in each of its namespaces, the control plane's included: the API server looks for parameters
 * before it evaluates whether a policy matches, and rejects every pod of a namespace without them.
 */
export function addAdmission(scope: Construct, environment: Environment): void {
  const { slice } = environment
  const settings = settingsOf(environment)
  const policies = slice.kind === 'base' ? ADMISSION_POLICIES : []
  for (const one of policies) new BoundPolicy(scope, one.name, { policy: one, settings })
  const { sandboxes, controlPlane, egress } = names(slice).namespaces
  const parameters = parametersOf(environment)
  for (const namespace of [sandboxes, controlPlane, egress]) addParameters(scope, namespace, parameters)
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

/** The policies read their parameters from a ConfigMap: see `PARAMETER_OBJECT`. */
export function addParameters(scope: Construct, namespace: string, parameters: AdmissionParameters): void {
  const { name } = PARAMETER_OBJECT
  new KubeConfigMap(scope, `Parameters ${namespace}`, {
    metadata: { name, namespace },
    data: { ...parameters },
  })
}

export function parametersOf(environment: Environment): AdmissionParameters {
  const { slice, isolation, sizes, images, egress } = environment
  const { pool, namespaces, serviceAccounts, executorKeys } = names(slice)
  return {
    pools: [pool('agent'), pool('command')].join(','),
    apiIdentity: `system:serviceaccount:${namespaces.controlPlane}:${serviceAccounts.api}`,
    maxLife: `${sizes.runs.maxHours}h`,
    agentAccount: serviceAccounts.agentHost,
    commandAccount: serviceAccounts.commandHost,
    agentAudiences: [IDENTITY_AUDIENCE, ...(vaultReader(environment) ? [EXCHANGE_TOKEN.audience] : [])].join(
      ',',
    ),
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
