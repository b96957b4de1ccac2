import { CONTROLLER_IDENTITY } from '../../policies/admission/actors.ts'
import { text } from '../../policies/admission/cel.ts'
import { PARAMETER_OBJECT } from '../../policies/admission/parameters.ts'
import type { AdmissionPolicy, AdmissionRule, Matched } from '../../policies/admission/rule.ts'
import type { KubeObject } from '../kube-object.ts'

const API_VERSION = 'admissionregistration.k8s.io/v1'
/** Names end so in every slice: `names()` of the contracts. A name, unlike a label, never changes. */
export const SANDBOXES_SUFFIX = '-sandboxes'

/** What a cluster's policies have to know. Whatever differs between slices is in their parameter objects. */
export interface PolicySettings {
  /** Begins the name of every policy. */
  readonly prefix: string
  readonly sliceLabel: string
  readonly gitopsIdentity: string
  readonly breakGlassGroup: string
  /** Regular expressions of the names of our namespaces, and of those that hold sandboxes. */
  readonly ownNamespaces: string
  readonly sandboxNamespaces: string
  /** Storage class of the workspaces of every slice. */
  readonly workspaceStorage: string
}

/**
 * The one policy that a GitOps controller never prunes. Once no binding names ConfigMaps as parameters, the API server
 * stops watching them for good (kubernetes#130887) and would go by what they were.
 */
const KEPT = 'sandbox-shape'
const NEVER_PRUNE = {
  'argocd.argoproj.io/sync-options': 'Prune=false,Delete=false',
  'kustomize.toolkit.fluxcd.io/prune': 'disabled',
}

function metadataOf({ name }: AdmissionPolicy, { prefix }: PolicySettings): KubeObject['metadata'] {
  return { name: `${prefix}-${name}`, ...(name === KEPT ? { annotations: NEVER_PRUNE } : {}) }
}

/** A ValidatingAdmissionPolicy and its binding for each policy. */
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

/** The variables of the settings that a policy uses come before its own, which may use them. */
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
