import { listManagedClusterUserCredentialsOutput } from '@pulumi/azure-native/containerservice/listManagedClusterUserCredentials.js'
import { Provider } from '@pulumi/kubernetes/provider.js'
import {
  ComponentResource,
  type ComponentResourceOptions,
  type Input,
  type Resource,
  secret,
} from '@pulumi/pulumi'
import { parseKubeconfig } from './kubeconfig.ts'

export interface KubeAccessArgs {
  readonly resourceGroupName: Input<string>
  readonly clusterName: Input<string>
  /**
   * Identifies the cluster before it exists. Without it, the provider would treat changed credentials as another
   * cluster.
   */
  readonly clusterIdentifier: string
  /** Drops objects from the state if the cluster is unreachable, for stacks that end before or with the cluster. */
  readonly forgetUnreachable: boolean
  /** Whether a private API server is reached by its name in public DNS. */
  readonly byPublicName: boolean
  readonly waitFor?: readonly Resource[]
}

/**
 * Access to the cluster's API through Entra, as the account that runs the program. The configuration holds no
 * credential.
 */
export class KubeAccess extends ComponentResource {
  readonly provider: Provider

  constructor(name: string, args: KubeAccessArgs, options: ComponentResourceOptions) {
    super('agentweaver:infra:KubeAccess', name, {}, options)
    const { resourceGroupName, clusterName, waitFor = [] } = args
    const credentials = listManagedClusterUserCredentialsOutput(
      {
        resourceGroupName,
        resourceName: clusterName,
        format: 'exec',
        ...(args.byPublicName && { serverFqdn: 'public' }),
      },
      { parent: this, dependsOn: [...waitFor] },
    )
    const kubeconfig = credentials.apply(({ kubeconfigs }) => parseKubeconfig(kubeconfigs[0]?.value ?? ''))
    this.provider = new Provider(
      name,
      {
        kubeconfig: secret(kubeconfig),
        clusterIdentifier: args.clusterIdentifier,
        enableServerSideApply: true,
        // Never takes over a field of another field manager.
        enablePatchForce: false,
        deleteUnreachable: args.forgetUnreachable,
      },
      { parent: this },
    )
    this.registerOutputs({})
  }
}
