import { isUnknown } from '../../../contracts/planned-resource.ts'
import {
  asList,
  type Demand,
  demand,
  isOneOf,
  isWithin,
  ofType,
  originsOf,
  originTypes,
  problem,
  typeOf,
  valueAt,
} from '../read.ts'
import { beyondSandbox, isPlatformsGetter, isWide, ownRole, PRIVILEGED_ROLES, roleIdOf } from '../roles.ts'
import type { Problem, RuledPlan, RuledResource, StackRule } from '../rule.ts'
import { CLUSTER, CREDENTIAL, IDENTITY, ROLE_ASSIGNMENT, ROLE_DEFINITION, STACK_REFERENCE } from '../types.ts'

/**
 * Checks assignments whose role and scope are both known. The others are checked at the end, by the origins of the
 * unknown values.
 */
function scope(resource: RuledResource): Problem[] {
  const { roleDefinitionId: role, scope: where } = resource.inputs
  if (isUnknown(role) || isUnknown(where)) return []
  return [...nameless(resource), ...wideGrant(resource, [])]
}

function scopesToCome(plan: RuledPlan): Problem[] {
  return ofType(plan, ROLE_ASSIGNMENT).flatMap((resource) => {
    const { roleDefinitionId: role, scope: where } = resource.inputs
    if (!isUnknown(role) && !isUnknown(where)) return []
    const roleTypes = isUnknown(role) ? originTypes(plan, resource, 'roleDefinitionId') : []
    if (roleTypes.length > 0 && roleTypes.every((type) => type === ROLE_DEFINITION)) return []
    return [...nameless(resource), ...wideGrant(resource, originTypes(plan, resource, 'scope'))]
  })
}

function nameless(resource: RuledResource): Problem[] {
  if (roleIdOf(resource.inputs['roleDefinitionId']) !== undefined) return []
  return [
    problem(
      resource,
      'roleDefinitionId',
      'does not name a role that is known while planning: write the role id as a constant',
    ),
  ]
}

/** A role with privileged rights on more than one resource. `types` are the origins of an unknown scope. */
function wideGrant(resource: RuledResource, types: readonly string[]): Problem[] {
  const name = PRIVILEGED_ROLES.get(roleIdOf(resource.inputs['roleDefinitionId']) ?? '')
  if (name === undefined || !isWide(resource.inputs['scope'], types)) return []
  return [
    ...demand(resource, 'condition', isCondition(name)),
    ...demand(resource, 'conditionVersion', isOneOf('2.0')),
  ]
}

/** A condition without an attribute of the request or the resource allows every request. */
function isCondition(role: string): Demand {
  return {
    holds: (value) => typeof value === 'string' && /@(?:Request|Resource)\[[^\]]+\]/.test(value),
    remedy: `${role} at this scope needs a condition on the request: add one, or assign a narrower role to one resource`,
  }
}

/** Custom roles must list their actions. They must contain neither wildcards nor actions that grant rights. */
function ownRoles(resource: RuledResource): Problem[] {
  return asList(resource.inputs['permissions']).flatMap((permission, index) =>
    ['actions', 'dataActions'].flatMap((kind) => {
      const path = `permissions[${index}].${kind}`
      if (valueAt(permission, kind) === undefined) return []
      return demand(resource, path, {
        holds: (value) =>
          asList(value).every(
            (action) =>
              typeof action === 'string' &&
              !/\*(?!\/read$)|^Microsoft\.Authorization\/.*\/(?:write|delete)/is.test(action),
          ),
        remedy:
          'list actions by name, without "*" (except for reading) and without actions that assign roles',
      })
    }),
  )
}

const VERSION_5 = /^[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

function shape(resource: RuledResource): Problem[] {
  return [
    ...demand(resource, 'principalType', isOneOf('ServicePrincipal', 'Group', 'User')),
    ...demand(resource, 'roleAssignmentName', {
      holds: (value) => typeof value === 'string' && VERSION_5.test(value),
      remedy: 'create a version 5 UUID from the logical names of scope, principal and role',
    }),
  ]
}

const SUBJECT = /^system:serviceaccount:([a-z0-9-]+):([a-z0-9.-]+)$/
const AUDIENCE = 'api://AzureADTokenExchange'

function credentialShape(resource: RuledResource): Problem[] {
  return [
    ...demand(resource, 'subject', {
      holds: (value) => typeof value === 'string' && SUBJECT.test(value),
      remedy: 'set it to system:serviceaccount:<namespace>:<name>, without wildcards and in lower case',
    }),
    ...demand(resource, 'audiences', {
      holds: (value) => JSON.stringify(value) === JSON.stringify([AUDIENCE]),
      remedy: `set it to ["${AUDIENCE}"]`,
    }),
    ...(isUnknown(resource.inputs['issuer']) ? [] : demand(resource, 'issuer', isIssuer)),
  ]
}

/** An unknown issuer must come from a cluster of this plan, or from the stack that this one references. */
function issuers(plan: RuledPlan): Problem[] {
  const trusted = ofType(plan, CLUSTER, STACK_REFERENCE).map(({ urn }) => urn)
  return ofType(plan, CREDENTIAL)
    .filter((one) => isUnknown(one.inputs['issuer']))
    .filter((one) => !originsOf(plan, one, 'issuer').some((urn) => trusted.includes(urn)))
    .map((one) => problem(one, 'issuer', `does not come from a cluster of this plan: ${isIssuer.remedy}`))
}

const isIssuer: Demand = {
  holds: (value) => typeof value === 'string' && /^https:\/\/[^\s/]+\/.*$/.test(value),
  remedy: "use the cluster's oidcIssuerProfile.issuerURL unchanged",
}

/** Returns the identity of a credential, or undefined if the plan does not contain it. */
function identityOf(plan: RuledPlan, credential: RuledResource): RuledResource | undefined {
  const name = credential.inputs['resourceName']
  const origins = originsOf(plan, credential, 'resourceName')
  return ofType(plan, IDENTITY).find(({ urn, inputs }) =>
    typeof name === 'string' ? inputs['resourceName'] === name : origins.includes(urn),
  )
}

/** Whether sandbox pods can sign in with the credential. An unknown subject counts as one of a sandbox. */
function isForSandboxes({ inputs }: RuledResource): boolean {
  const [, namespace = '', account = ''] = SUBJECT.exec(String(inputs['subject'])) ?? []
  return namespace === '' || namespace.endsWith('-sandboxes') || /-(?:agent|command)-host$/.test(account)
}

function split(plan: RuledPlan): Problem[] {
  const credentials = ofType(plan, CREDENTIAL).filter(isForSandboxes)
  return credentials.flatMap((credential) => {
    const identity = identityOf(plan, credential)
    if (identity === undefined) {
      return [
        problem(
          credential,
          'resourceName',
          'does not name an identity of this plan: pass the name of the identity resource',
        ),
      ]
    }
    const held = ofType(plan, ROLE_ASSIGNMENT).filter((role) =>
      originsOf(plan, role, 'principalId').includes(identity.urn),
    )
    return held.flatMap((assignment) => tooMuch(plan, assignment, String(credential.inputs['subject'])))
  })
}

function tooMuch(plan: RuledPlan, assignment: RuledResource, subject: string): Problem[] {
  if (isPlatformsGetter(plan, assignment)) return []
  const role = ownRole(plan, assignment)
  const beyond =
    role === undefined ? ['a role that is neither in this plan nor one that only reads'] : beyondSandbox(role)
  if (beyond.length === 0) return []
  return [
    problem(
      assignment,
      'roleDefinitionId',
      `gives ${subject} ${beyond.join(', ')}: sandboxes may read a secret by its name, nothing else`,
    ),
  ]
}

/**
 * Credentials of one identity must depend on each other: Azure returns 409 for two concurrent writes to one identity.
 */
function serial(plan: RuledPlan): Problem[] {
  const before = ancestorsOf(plan)
  const groups = Map.groupBy(ofType(plan, CREDENTIAL), (credential) => identityOf(plan, credential)?.urn)
  return [...groups].flatMap(([identity, group]) => {
    if (identity === undefined) {
      return group.map((one) =>
        problem(
          one,
          'resourceName',
          'does not name an identity of this plan: pass the name of the identity resource',
        ),
      )
    }
    return group.flatMap((one, index) =>
      group.slice(index + 1).flatMap((other) => {
        if (before(one.urn).has(other.urn) || before(other.urn).has(one.urn)) return []
        return [
          problem(other, '', `may be created at the same time as ${one.name}: make one depend on the other`),
        ]
      }),
    )
  })
}

/** Returns all direct and transitive dependencies of a resource. */
function ancestorsOf(plan: RuledPlan): (urn: string) => ReadonlySet<string> {
  const byUrn = new Map(plan.resources.map((resource) => [resource.urn, resource]))
  const found = new Map<string, ReadonlySet<string>>()
  const walk = (urn: string): ReadonlySet<string> => {
    const kept = found.get(urn)
    if (kept !== undefined) return kept
    found.set(urn, new Set())
    const direct = byUrn.get(urn)?.dependencies ?? []
    const all = new Set([...direct, ...direct.flatMap((one) => [...walk(one)])])
    found.set(urn, all)
    return all
  }
  return walk
}

/** Azure's limit for one identity. */
const MAX_CREDENTIALS = 20

function few(plan: RuledPlan): Problem[] {
  const counted = Map.groupBy(ofType(plan, CREDENTIAL), (credential) => identityOf(plan, credential))
  return [...counted].flatMap(([identity, group]) =>
    identity === undefined || isWithin(0, MAX_CREDENTIALS).holds(group.length)
      ? []
      : [problem(identity, '', `has ${group.length} federated credentials; Azure allows ${MAX_CREDENTIALS}`)],
  )
}

export const ACCESS_RULES: readonly StackRule[] = [
  {
    number: 27,
    name: 'rbac-scope',
    level: 'mandatory',
    requires:
      'a role that can own, change or grant has a condition if its scope is wider than one resource, and custom roles list their actions',
    reason: 'a stolen identity can change one resource and not all',
    resource: {
      types: [ROLE_ASSIGNMENT, ROLE_DEFINITION],
      check: (resource) => (typeOf(resource) === ROLE_DEFINITION ? ownRoles(resource) : scope(resource)),
    },
    stack: scopesToCome,
  },
  {
    number: 28,
    name: 'rbac-shape',
    level: 'mandatory',
    requires: 'a role assignment states the type of its principal, and its name is a version 5 UUID',
    reason: 'Azure accepts principals that were just created, and a second run uses the same assignment',
    resource: { types: [ROLE_ASSIGNMENT], check: shape },
  },
  {
    number: 29,
    name: 'rbac-split',
    level: 'mandatory',
    requires: 'an identity of sandboxes may only read named secrets',
    reason: 'a process in a sandbox that has the token cannot write secrets or change Azure resources',
    stack: split,
  },
  {
    number: 30,
    name: 'fic-shape',
    level: 'mandatory',
    requires:
      "a federated credential trusts one service account of this cluster's issuer, with Azure's audience",
    reason: 'no other account, cluster or audience can sign in',
    resource: { types: [CREDENTIAL], check: credentialShape },
    stack: issuers,
  },
  {
    number: 40,
    name: 'fic-serial',
    level: 'mandatory',
    requires: 'the federated credentials of an identity are created one after another, at most twenty',
    reason: 'Azure rejects concurrent changes with 409',
    stack: (plan) => [...serial(plan), ...few(plan)],
  },
]
