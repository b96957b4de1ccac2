import type { Cloud } from '../cloud.ts'
import type { Properties } from '../values.ts'
import { RpcError, STATUS } from '../wire.ts'
import { AZURE, addressOf, templateOf } from './addresses.ts'
import { guidOf } from './computed.ts'

interface Caller {
  readonly cloud: Cloud
  readonly subscriptionId: string
  readonly tenantId: string
}

/** The application that Microsoft runs for every cluster with Entra: the audience of kubelogin's tokens. */
const AKS_SERVER_APPLICATION = '6dae42f8-4368-4678-94ff-3960e28e3630'

/**
 * A kubeconfig as `az aks get-credentials` writes it: without a token, with a plug-in that requests one by device code.
 */
export function userKubeconfig(host: string, cluster: string, tenantId: string): string {
  const exec = {
    apiVersion: 'client.authentication.k8s.io/v1beta1',
    command: 'kubelogin',
    args: [
      'get-token',
      '--environment',
      'AzurePublicCloud',
      '--server-id',
      AKS_SERVER_APPLICATION,
      '--client-id',
      '80faf920-1908-4b52-b5ef-a8e7bedfc67a',
      '--tenant-id',
      tenantId,
      '--login',
      'devicecode',
    ],
    env: null,
    installHint: 'kubelogin is not installed',
    provideClusterInfo: false,
  }
  const user = `clusterUser_${cluster}`
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [
      {
        name: cluster,
        cluster: {
          server: `https://${host}:443`,
          'certificate-authority-data': Buffer.from(`authority of ${host}`).toString('base64'),
        },
      },
    ],
    users: [{ name: user, user: { exec } }],
    contexts: [{ name: cluster, context: { cluster, user } }],
    'current-context': cluster,
  })
}

function credentials({ cloud, subscriptionId, tenantId }: Caller, args: Properties): Properties {
  const id = addressOf(`${AZURE}containerservice:ManagedCluster`, args, subscriptionId)
  const cluster = cloud.get(id)
  if (cluster === undefined)
    throw new RpcError(STATUS.unknown, `Status=404 Code="ResourceNotFound" Message="'${id}' was not found."`)
  const host = String(cluster.outputs['fqdn'] ?? cluster.outputs['privateFQDN'])
  const value = userKubeconfig(host, String(args['resourceName']), tenantId)
  return { kubeconfigs: [{ name: 'clusterUser', value: Buffer.from(value).toString('base64') }] }
}

/** The SDK's `getX` reads an object of type `X`. */
function readExisting({ cloud, subscriptionId }: Caller, token: string, args: Properties): Properties {
  const type = token.replace(/:get/, ':')
  if (templateOf(type) === undefined)
    throw new RpcError(STATUS.invalidArgument, `the stand-in does not answer ${token}`)
  const id = addressOf(type, args, subscriptionId)
  const found = cloud.get(id)
  if (found === undefined)
    throw new RpcError(STATUS.unknown, `Status=404 Code="ResourceNotFound" Message="'${id}' was not found."`)
  return { ...found.outputs, id }
}

/**
 * Read functions of `azure-native`. Administrator credentials are rejected, because the cluster has no local accounts.
 */
export function azureInvoke(caller: Caller, token: string, args: Properties): Properties {
  const name = token.slice(AZURE.length)
  if (name === 'containerservice:listManagedClusterUserCredentials') return credentials(caller, args)
  if (name === 'containerservice:listManagedClusterAdminCredentials')
    throw new RpcError(
      STATUS.unknown,
      'Status=400 Code="BadRequest" Message="Getting static credential is not allowed because this cluster is set to disable local accounts."',
    )
  if (name === 'authorization:getClientConfig')
    return {
      clientId: guidOf('deployer/client'),
      objectId: guidOf('deployer/object'),
      subscriptionId: caller.subscriptionId,
      tenantId: caller.tenantId,
    }
  return readExisting(caller, token, args)
}
