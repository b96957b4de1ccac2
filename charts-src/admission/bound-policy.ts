import { Construct } from 'constructs'
import { CONTROLLER_IDENTITY } from '../../policies/admission/actors.ts'
import { text } from '../../policies/admission/cel.ts'
import { PARAMETER_OBJECT } from '../../policies/admission/parameters.ts'
import type { AdmissionPolicy, AdmissionRule, Matched } from '../../policies/admission/rule.ts'
import {
  KubeValidatingAdmissionPolicy,
  KubeValidatingAdmissionPolicyBinding,
  type MatchCondition,
  type NamedRuleWithOperations,
  type ObjectMeta,
  type Validation,
  type Variable,
} from '../imports/k8s.js'

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
  /** Regular expressions that match the names of our namespaces, and of sandbox namespaces. */
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

function metadataOf(
  { name }: AdmissionPolicy,
  { prefix }: PolicySettings,
): ObjectMeta & { readonly name: string } {
  return { name: `${prefix}-${name}`, ...(name === KEPT ? { annotations: NEVER_PRUNE } : {}) }
}

export interface BoundPolicyProps {
  readonly policy: AdmissionPolicy
  readonly settings: PolicySettings
}

/** A ValidatingAdmissionPolicy and its binding. */
export class BoundPolicy extends Construct {
  constructor(scope: Construct, id: string, { policy, settings }: BoundPolicyProps) {
    super(scope, id)
    const metadata = metadataOf(policy, settings)
    const { apiVersion, kind, name } = PARAMETER_OBJECT
    const isParameterized = needsParameters(policy)
    const inOurNamespaces = { matchExpressions: [{ key: settings.sliceLabel, operator: 'Exists' }] }
    new KubeValidatingAdmissionPolicy(this, 'Policy', {
      metadata,
      spec: {
        failurePolicy: 'Fail',
        paramKind: isParameterized ? { apiVersion, kind } : undefined,
        matchConstraints: {
          matchPolicy: 'Equivalent',
          namespaceSelector: {},
          objectSelector: {},
          resourceRules: policy.matches.map(resourceRule),
        },
        matchConditions: policy.scope === 'sandboxes' ? [inSandboxes()] : undefined,
        variables: variablesOf(policy, settings),
        validations: policy.rules.map(validation),
      },
    })
    new KubeValidatingAdmissionPolicyBinding(this, 'Binding', {
      metadata,
      spec: {
        policyName: metadata.name,
        validationActions: ['Deny'],
        paramRef: isParameterized ? { name, parameterNotFoundAction: 'Deny' } : undefined,
        matchResources: policy.scope === 'cluster' ? undefined : { namespaceSelector: inOurNamespaces },
      },
    })
  }
}

function resourceRule({ apiGroup, apiVersion, resources, operations }: Matched): NamedRuleWithOperations {
  return {
    apiGroups: [apiGroup],
    apiVersions: [apiVersion],
    resources: [...resources],
    operations: [...operations],
    scope: '*',
  }
}

function inSandboxes(): MatchCondition {
  return {
    name: 'in-a-namespace-of-sandboxes',
    expression: `request.namespace.endsWith(${text(SANDBOXES_SUFFIX)})`,
  }
}

function validation({ name, expression, message, offenders }: AdmissionRule): Validation {
  const opening = `[${name}] `
  return {
    expression,
    message: opening + message,
    messageExpression: offenders
      ? `${text(opening)} + (${offenders}).join(', ') + ${text(`: ${message}`)}`
      : undefined,
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
function variablesOf(policy: AdmissionPolicy, settings: PolicySettings): Variable[] | undefined {
  const constants = { ...settings, controllerIdentity: CONTROLLER_IDENTITY }
  const texts = textsOf(policy)
  const used = Object.entries(constants).filter(([name]) => texts.includes(`variables.${name}`))
  const variables = [
    ...used.map(([name, value]) => ({ name, expression: text(value) })),
    ...Object.entries(policy.variables).map(([name, expression]) => ({ name, expression })),
  ]
  return variables.length > 0 ? variables : undefined
}
