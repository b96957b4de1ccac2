import { FederatedIdentityCredential } from '@pulumi/azure-native/managedidentity/federatedIdentityCredential.js'
import { UserAssignedIdentity } from '@pulumi/azure-native/managedidentity/userAssignedIdentity.js'
import {
  ComponentResource,
  type ComponentResourceOptions,
  type Input,
  type Output,
  type Resource,
} from '@pulumi/pulumi'
import { type GrantArgs, grant } from './grant.ts'
import type { Site } from './site.ts'

/** The audience that Entra accepts; any other, or a second one, is rejected at login. */
const AUDIENCE = 'api://AzureADTokenExchange'

export interface ServiceAccount {
  readonly namespace: string
  readonly name: string
}
export type IdentityGrant = Pick<GrantArgs, 'role' | 'scope' | 'on' | 'why'> & {
  /** A resource that must exist first, if the scope does not imply it. */
  readonly after?: Resource
}

export interface WorkloadIdentityArgs {
  readonly site: Site
  readonly identityName: string
  /** The cluster's issuer, exactly as Azure writes it: it ends with "/". */
  readonly issuer: Input<string>
  /** Service accounts that may use the identity: one, or two while an account moves. Azure allows at most 20. */
  readonly serviceAccounts: readonly ServiceAccount[]
  readonly grants: readonly IdentityGrant[]
}

/**
 * An Azure identity without a secret. Pods of the given service accounts exchange their projected token for a token
 * of the identity.
 */
export class WorkloadIdentity extends ComponentResource {
  readonly clientId: Output<string>
  readonly principalId: Output<string>

  constructor(name: string, args: WorkloadIdentityArgs, options: ComponentResourceOptions) {
    super('agentweaver:infra:WorkloadIdentity', name, {}, options)
    const { site, identityName, issuer, serviceAccounts, grants } = args
    const identity = new UserAssignedIdentity(
      name,
      {
        resourceGroupName: site.resourceGroupName,
        location: site.location,
        tags: site.tags,
        resourceName: identityName,
      },
      { parent: this },
    )
    let before: Resource = identity
    for (const account of serviceAccounts) {
      // Azure rejects parallel writes on one identity with a conflict, so the credentials form a chain.
      before = new FederatedIdentityCredential(
        `${name}-${account.namespace}`,
        {
          resourceGroupName: site.resourceGroupName,
          resourceName: identityName,
          federatedIdentityCredentialResourceName: `${account.namespace}-${account.name}`.slice(0, 120),
          issuer,
          subject: `system:serviceaccount:${account.namespace}:${account.name}`,
          audiences: [AUDIENCE],
        },
        { parent: this, dependsOn: [before] },
      )
    }
    for (const { after, ...one } of grants) {
      const dependsOn = after === undefined ? [] : [after]
      const principal = { principalId: identity.principalId, principal: identityName }
      grant({ site, ...principal, ...one }, { parent: this, dependsOn })
    }
    this.clientId = identity.clientId
    this.principalId = identity.principalId
    this.registerOutputs({})
  }
}
