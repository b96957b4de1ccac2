/**
 * Layers of a platform whose API server is reachable only from its network, in the order of their creation. Each is a
 * separate stack, so that the network and a way into it exist before the first Kubernetes object is created.
 */
export const LAYERS = ['network', 'cluster', 'add-ons'] as const
export type Layer = (typeof LAYERS)[number]

export const layerStack = (environment: string, layer: Layer): string => `${environment}-${layer}`

/** Output of a layer's stack that the next layer reads. */
export const BOUNDARY_OUTPUT = 'boundary'

/** What the cluster's layer needs of the network's. Each value is an id, but for the name of the group. */
export interface NetworkBoundary<T> {
  readonly resourceGroupName: T
  readonly virtualNetworkId: T
  readonly subnets: {
    readonly nodes: T
    readonly apiServer: T
    readonly database: T
    readonly endpoints: T
  }
}

/**
 * Values of the cluster layer that the add-ons layer needs. No credential: the add-ons layer requests the kubeconfig
 * from Azure with the account that runs it.
 */
export interface ClusterBoundary<T> {
  readonly resourceGroupName: T
  readonly clusterName: T
}
