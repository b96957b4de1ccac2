import { nodeCapacity } from './capacity.ts'
import type { PlatformNames } from './platform-names.ts'
import { parseVmSize } from './vm-sizes.ts'

/** The namespace of managed Prometheus and its collectors, which read their own kind of PodMonitor. */
export const MONITORING_NAMESPACE = 'kube-system'
/** Port of the Service `kubernetes` and, on AKS, of the API server behind it. */
export const API_SERVER_PORT = 443
const POSTGRES_PORT = 5432
const LOGIN_HOST = 'login.microsoftonline.com'
/** The overlay gives each node a /24 of the pods' range. */
const NODE_POD_BITS = 24

/** The settings of a stack that are part of its outputs. */
interface Settings {
  readonly tenantId: string
  readonly network: {
    readonly serviceCidr: string
    readonly podCidr: string
    readonly nodeCidr: string
    readonly apiServerCidr: string
    readonly databaseCidr: string
  }
  readonly pools: {
    readonly kata: {
      readonly size: string
      readonly min: number
      readonly max: number
      readonly maxPods: number
      readonly osDiskGib: number
      readonly daemons: { readonly cpuMillis: number; readonly memoryMib: number; readonly pods: number }
      readonly measured?:
        | { readonly cpuMillis: number; readonly memoryMib: number; readonly ephemeralMib: number }
        | undefined
    }
  }
  readonly gateway: object
  readonly workspaceDisks: string
  readonly model?: { readonly host: string } | undefined
}

/** Values that only Azure knows. Each is a value or a future output. */
interface Facts<T> {
  readonly issuer: T
  readonly databaseHost: T
  readonly clientIds: { readonly api: T; readonly agentHost: T | undefined; readonly egressProxy: T }
  readonly databaseSetup: { readonly clientId: T; readonly role: string; readonly apiObjectId: T }
}

const vault = (name: string) => ({ name, host: `${name}.vault.azure.net` })

/** Outputs of a platform in the shape of `contracts/outputs.ts`. They contain no secret. */
export function infraOutputs<T>(args: {
  readonly config: Settings
  readonly names: PlatformNames
  readonly zone: string
  readonly databaseName: string
  readonly facts: Facts<T>
}) {
  const { config, names, zone, databaseName, facts } = args
  const { network, gateway, model } = config
  const { clientIds } = facts
  return {
    cluster: { name: names.cluster, issuer: facts.issuer },
    network: {
      serviceCidrs: [network.serviceCidr],
      podCidrs: [network.podCidr],
      nodeCidrs: [network.nodeCidr],
      nodePodBits: NODE_POD_BITS,
    },
    apiServer: { cidrs: [network.apiServerCidr], port: API_SERVER_PORT },
    database: {
      host: facts.databaseHost,
      cidr: network.databaseCidr,
      port: POSTGRES_PORT,
      name: databaseName,
    },
    registry: { host: `${names.registry}.azurecr.io` },
    dns: { zone, previewZone: `preview.${zone}` },
    gateway,
    monitoring: { namespace: MONITORING_NAMESPACE, collector: 'azure' },
    storage: { provisioner: 'disk.csi.azure.com', parameters: { skuName: config.workspaceDisks } },
    sandboxNodes: sandboxNodes(config.pools.kata),
    azure: {
      tenantId: config.tenantId,
      loginHost: LOGIN_HOST,
      vaults: { controlPlane: vault(names.controlPlaneVault), userTokens: vault(names.userTokenVault) },
      identities: {
        api: { clientId: clientIds.api },
        ...(clientIds.agentHost && { agentHost: { clientId: clientIds.agentHost } }),
        egressProxy: { clientId: clientIds.egressProxy },
      },
      databaseSetup: facts.databaseSetup,
      ...(model && { modelHost: model.host }),
    },
  }
}

function sandboxNodes(kata: Settings['pools']['kata']) {
  const size = parseVmSize(kata.size)
  if (size === undefined) throw new TypeError(`${kata.size} is not a machine size`)
  const { min, max, daemons, measured } = kata
  const { cpuMillis, memoryMib, ephemeralMib, pods } = { ...nodeCapacity(size, kata), ...measured }
  return { min, max, cpuMillis, memoryMib, ephemeralMib, pods, daemons }
}
