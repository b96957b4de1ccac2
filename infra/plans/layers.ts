/**
 * Layers of a platform whose API server is reached from its network alone, in the order in which they are raised. Each is
 * a stack of its own, so that the network and a way into it exist before the first object of Kubernetes is made.
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
 * What the layer of add-ons needs of the cluster's. No credential: the add-ons ask Azure for the kubeconfig themselves,
 * as whoever raises them.
 */
export interface ClusterBoundary<T> {
  readonly resourceGroupName: T
  readonly clusterName: T
}
