import { RoleAssignment } from '@pulumi/azure-native/authorization/roleAssignment.js'
import type { CustomResourceOptions, Input } from '@pulumi/pulumi'
import { roleAssignmentGuid } from '../model/naming.ts'
import { BUILT_IN_ROLES, type BuiltInRole, roleDefinitionId } from '../model/roles.ts'
import type { Site } from './site.ts'

export type Role = BuiltInRole | { readonly name: string; readonly definitionId: Input<string> }

export interface GrantArgs {
  readonly site: Site
  readonly role: Role
  /** The principal, and its logical name, which is part of the assignment's name. */
  readonly principalId: Input<string>
  readonly principal: string
  readonly principalType?: 'ServicePrincipal' | 'Group'
  readonly scope: Input<string>
  /** Logical name of the scope. */
  readonly on: string
  readonly why: string
}

/**
 * One role for one principal on one scope. `principalType` is always set: without it Azure looks up a new principal
 * before it is replicated, and fails.
 */
export function grant(args: GrantArgs, options: CustomResourceOptions): RoleAssignment {
  const { site, role, principal, on } = args
  const roleName = typeof role === 'string' ? role : role.name
  const roleDefinition =
    typeof role === 'string' ? roleDefinitionId(site.subscriptionId, BUILT_IN_ROLES[role]) : role.definitionId
  return new RoleAssignment(
    `${principal}: ${roleName} on ${on}`,
    {
      roleAssignmentName: roleAssignmentGuid({
        stack: site.stack,
        scope: on,
        principal,
        role: roleName,
        generation: site.grantGeneration,
      }),
      scope: args.scope,
      principalId: args.principalId,
      principalType: args.principalType ?? 'ServicePrincipal',
      roleDefinitionId: roleDefinition,
      description: args.why,
    },
    options,
  )
}
