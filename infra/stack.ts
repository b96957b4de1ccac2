import { log } from '@pulumi/pulumi'
import { readBasePlatform, readControllerRelease, readLayeredPlatform } from './config.ts'
import type { InfraConfig, LayerConfig, PlatformConfig } from './config-sections.ts'
import { buildAddOnsLayer, buildClusterLayer, buildNetworkLayer, buildPlatform } from './platform/platform.ts'
import { buildSlice } from './slice/slice.ts'

/**
 * Builds one of three kinds of stacks: a platform, a layer of a platform, or the preview of a branch on a platform.
 */
export async function buildStack(config: InfraConfig): Promise<StackOutputs> {
  if (config.kind === 'slice') return buildSlice(config, await readBasePlatform(config.environment))
  if (config.layer !== 'all') return buildLayer(config)
  if (isOutOfReach(config)) await log.warn(outOfReach(config.environment))
  return buildPlatform(config, await readControllerRelease(config))
}

async function buildLayer(config: LayerConfig): Promise<StackOutputs> {
  const platform = await readLayeredPlatform(config)
  switch (config.layer) {
    case 'network':
      return buildNetworkLayer(platform)
    case 'cluster':
      return buildClusterLayer(platform)
    case 'add-ons':
      return buildAddOnsLayer(platform, await readControllerRelease(platform))
  }
}

/** The outputs that `index.ts` exports by name. All other outputs are exported as `about`. */
interface StackOutputs {
  readonly infra?: object
  readonly boundary?: object
  readonly resourceGroups: readonly string[]
}

/** True for a private cluster in a network that this stack creates: no client can be inside that network yet. */
const isOutOfReach = ({ apiServer, network }: PlatformConfig) =>
  apiServer.access === 'private' && network.existing === undefined

const outOfReach = (environment: string) =>
  `The API server of ${environment} can be reached only from its network, which this stack creates. From elsewhere the update fails at the first Kubernetes object. Use npm run up -- --stack ${environment}, which creates the platform in layers.`
