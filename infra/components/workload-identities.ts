import { ComponentResource, type ComponentResourceOptions, type Input, type Output } from '@pulumi/pulumi'
import { names as clusterNames, type Slice } from '../../contracts/names.ts'
import type { Site } from './site.ts'
import { type IdentityGrant, WorkloadIdentity } from './workload-identity.ts'

export interface WorkloadIdentitiesArgs {
  readonly site: Site
  readonly slice: Slice
  readonly issuer: Input<string>
  readonly identityName: (purpose: string) => string
  readonly grants: {
    readonly api: readonly IdentityGrant[]
    /** Absent if AgentHost needs no identity. */
    readonly agentHost: readonly IdentityGrant[] | undefined
    readonly egressProxy: readonly IdentityGrant[]
  }
}

/** One identity for each service account of a slice that needs one. The command host has none. */
export class WorkloadIdentities extends ComponentResource {
  /** Object id of the API's identity: databases map a role to it. */
  readonly apiPrincipalId: Output<string>
  readonly clientIds: {
    readonly api: Output<string>
    readonly agentHost: Output<string> | undefined
    readonly egressProxy: Output<string>
  }

  constructor(name: string, args: WorkloadIdentitiesArgs, options: ComponentResourceOptions) {
    super('agentweaver:infra:WorkloadIdentities', name, {}, options)
    const { site, slice, issuer, identityName, grants } = args
    const { namespaces, serviceAccounts } = clusterNames(slice)
    const identity = (
      purpose: string,
      account: { namespace: string; name: string },
      own: readonly IdentityGrant[],
    ) =>
      new WorkloadIdentity(
        `${name}-${purpose}`,
        { site, identityName: identityName(purpose), issuer, serviceAccounts: [account], grants: own },
        { parent: this },
      )
    const api = identity('api', { namespace: namespaces.controlPlane, name: serviceAccounts.api }, grants.api)
    this.apiPrincipalId = api.principalId
    this.clientIds = {
      api: api.clientId,
      agentHost:
        grants.agentHost &&
        identity(
          'agent-host',
          { namespace: namespaces.sandboxes, name: serviceAccounts.agentHost },
          grants.agentHost,
        ).clientId,
      egressProxy: identity(
        'egress-proxy',
        { namespace: namespaces.egress, name: serviceAccounts.egressProxy },
        grants.egressProxy,
      ).clientId,
    }
    this.registerOutputs({})
  }
}
