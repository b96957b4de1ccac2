import { getOrganization, getProject, type Output, RunError, StackReference } from '@pulumi/pulumi'
import * as z from 'zod'
import {
  BOUNDARY_OUTPUT,
  type ClusterBoundary,
  type Layer,
  layerStack,
  type NetworkBoundary,
} from '../model/layers.ts'

const Name = z.string().min(1).max(90)
const Id = z
  .string()
  .max(1000)
  .regex(/^\/subscriptions\/[^/]+\/resourceGroups\/[^/]+\/providers\/Microsoft\.Network\/[^\s]+$/i)

const Network: z.ZodType<NetworkBoundary<string>> = z.strictObject({
  resourceGroupName: Name,
  virtualNetworkId: Id,
  subnets: z.strictObject({ nodes: Id, apiServer: Id, database: Id, endpoints: Id }),
})
const Cluster: z.ZodType<ClusterBoundary<string>> = z.strictObject({
  resourceGroupName: Name,
  clusterName: Name,
})

/** The network's boundary as the stack of that layer exports it. */
export const networkBoundary = (environment: string): Output<NetworkBoundary<string>> =>
  boundaryOf(environment, 'network', Network)

/** The cluster's boundary as the stack of that layer exports it. */
export const clusterBoundary = (environment: string): Output<ClusterBoundary<string>> =>
  boundaryOf(environment, 'cluster', Cluster)

function boundaryOf<T>(environment: string, layer: Layer, schema: z.ZodType<T>): Output<T> {
  const stack = layerStack(environment, layer)
  const reference = new StackReference(stack, { name: `${getOrganization()}/${getProject()}/${stack}` })
  return reference.getOutput(BOUNDARY_OUTPUT).apply((value: unknown) => {
    const parsed = schema.safeParse(value)
    if (parsed.success) return parsed.data
    throw new RunError(
      `The stack ${stack} does not have what this layer needs: raise it first, with npm run up -- --stack ${environment}`,
    )
  })
}
