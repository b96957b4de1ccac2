import { CONTROLLER_IDENTITY } from '../../policies/admission/actors.ts'
import { text } from '../../policies/admission/cel.ts'
import { PARAMETER_OBJECT } from '../../policies/admission/parameters.ts'
import type { AdmissionPolicy, AdmissionRule, Matched } from '../../policies/admission/rule.ts'
import type { KubeObject } from '../kube-object.ts'

const API_VERSION = 'admissionregistration.k8s.io/v1'
/**
 * Suffix of sandbox namespaces in every slice (`names()` in contracts). Unlike a label, a namespace name
 * cannot change.
 */
export const SANDBOXES_SUFFIX = '-sandboxes'

/** Cluster-wide settings of the policies. Values that differ between slices are in the parameter objects. */
export interface PolicySettings {
  /** Prefix of every policy name. */
  readonly prefix: string
  readonly sliceLabel: string
  readonly gitopsIdentity: string
  readonly breakGlassGroup: string
  /** Regular expressions for the names of our namespaces, and for those of sandbox namespaces. */
  readonly ownNamespaces: string
  readonly sandboxNamespaces: string
  /** StorageClass of the workspaces of every slice. */
  readonly workspaceStorage: string
}

/**
 * GitOps controllers must never prune the binding of this policy. When no binding names ConfigMaps as
 * parameters, the API server stops watching them until its restart (kubernetes#130887) and evaluates stale
 * values.
 */
const KEPT = 'sandbox-shape'
const NEVER_PRUNE = {
  'argocd.argoproj.io/sync-options': 'Prune=false,Delete=false',
  'kustomize.toolkit.fluxcd.io/prune': 'disabled',
}

function metadataOf({ name }: AdmissionPolicy, { prefix }: PolicySettings): KubeObject['metadata'] {
  return { name: `${prefix}-${name}`, ...(name === KEPT ? { annotations: NEVER_PRUNE } : {}) }
}

/** Returns a ValidatingAdmissionPolicy and its binding for each policy. */
export function policyObjects(policies: readonly AdmissionPolicy[], settings: PolicySettings): KubeObject[] {
  return policies.flatMap((policy) => [policyObject(policy, settings), bindingObject(policy, settings)])
}

function policyObject(policy: AdmissionPolicy, settings: PolicySettings): KubeObject {
  return {
    apiVersion: API_VERSION,
    kind: 'ValidatingAdmissionPolicy',
    metadata: metadataOf(policy, settings),
    spec: {
      failurePolicy: 'Fail',
      ...(needsParameters(policy)
        ? { paramKind: { apiVersion: PARAMETER_OBJECT.apiVersion, kind: PARAMETER_OBJECT.kind } }
        : {}),
      matchConstraints: {
        matchPolicy: 'Equivalent',
        namespaceSelector: {},
        objectSelector: {},
        resourceRules: policy.matches.map(resourceRule),
      },
      ...(policy.scope === 'sandboxes' ? { matchConditions: [inSandboxes()] } : {}),
      ...variablesOf(policy, settings),
      validations: policy.rules.map(validation),
    },
  }
}

function bindingObject(policy: AdmissionPolicy, settings: PolicySettings): KubeObject {
  const metadata = metadataOf(policy, settings)
  const namespaceSelector = { matchExpressions: [{ key: settings.sliceLabel, operator: 'Exists' }] }
  return {
    apiVersion: API_VERSION,
    kind: 'ValidatingAdmissionPolicyBinding',
    metadata,
    spec: {
      policyName: metadata.name,
      validationActions: ['Deny'],
      ...(needsParameters(policy)
        ? { paramRef: { name: PARAMETER_OBJECT.name, parameterNotFoundAction: 'Deny' } }
        : {}),
      ...(policy.scope === 'cluster' ? {} : { matchResources: { namespaceSelector } }),
    },
  }
}

function resourceRule({ apiGroup, apiVersion, resources, operations }: Matched) {
  return { apiGroups: [apiGroup], apiVersions: [apiVersion], resources, operations, scope: '*' }
}

function inSandboxes() {
  return {
    name: 'in-a-namespace-of-sandboxes',
    expression: `request.namespace.endsWith(${text(SANDBOXES_SUFFIX)})`,
  }
}

function validation({ name, expression, message, offenders }: AdmissionRule) {
  const opening = `[${name}] `
  return {
    expression,
    message: opening + message,
    ...(offenders
      ? { messageExpression: `${text(opening)} + (${offenders}).join(', ') + ${text(`: ${message}`)}` }
      : {}),
    reason: 'Forbidden',
  }
}

function textsOf({ variables, rules }: AdmissionPolicy): string {
  return [
    ...Object.values(variables),
    ...rules.flatMap((rule) => [rule.expression, rule.offenders ?? '']),
  ].join(' ')
}

function needsParameters(policy: AdmissionPolicy): boolean {
  return /\bparams\./.test(textsOf(policy))
}

/**
 * Returns the settings variables that a policy uses, followed by its own variables, which may refer to them.
 */
function variablesOf(policy: AdmissionPolicy, settings: PolicySettings) {
  const constants = { ...settings, controllerIdentity: CONTROLLER_IDENTITY }
  const texts = textsOf(policy)
  const used = Object.entries(constants).filter(([name]) => texts.includes(`variables.${name}`))
  const variables = [
    ...used.map(([name, value]) => ({ name, expression: text(value) })),
    ...Object.entries(policy.variables).map(([name, expression]) => ({ name, expression })),
  ]
  return variables.length > 0 ? { variables } : {}
}
