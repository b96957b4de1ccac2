import { RoleDefinition } from '@pulumi/azure-native/authorization/roleDefinition.js'
import { ComponentResource, type ComponentResourceOptions, type Input, type Output } from '@pulumi/pulumi'
import { customRoleGuid } from '../plans/naming.ts'
import { SECRET_GETTER } from '../plans/roles.ts'
import type { Role } from './grant.ts'
import type { Site } from './site.ts'

export interface SecretGetterRoleArgs {
  readonly site: Site
  /** Where it may be granted. */
  readonly scope: Input<string>
}

/** The role that reads a secret by its name and can do nothing else: Azure's own roles all list, too. */
export class SecretGetterRole extends ComponentResource {
  readonly definitionId: Output<string>
  readonly role: Role

  constructor(name: string, { site, scope }: SecretGetterRoleArgs, options: ComponentResourceOptions) {
    super('agentweaver:infra:SecretGetterRole', name, {}, options)
    const guid = customRoleGuid(site.subscriptionId, name)
    const definition = new RoleDefinition(
      name,
      {
        roleDefinitionId: guid,
        // Names of roles are unique in a tenant.
        roleName: `${SECRET_GETTER.name} (${site.stack} ${guid.slice(0, 8)})`,
        roleType: 'CustomRole',
        description: 'Reads a secret of a vault by its name. No list, no metadata, no write.',
        scope,
        assignableScopes: [scope],
        permissions: [
          { actions: [], notActions: [], dataActions: [...SECRET_GETTER.dataActions], notDataActions: [] },
        ],
      },
      { parent: this },
    )
    this.definitionId = definition.id
    this.role = { name: SECRET_GETTER.name, definitionId: definition.id }
    this.registerOutputs({})
  }
}
