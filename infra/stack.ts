import { readBasePlatform, readControllerRelease } from './config.ts'
import type { InfraConfig } from './config-sections.ts'
import { buildPlatform } from './platform/platform.ts'
import { buildSlice } from './slice/slice.ts'

/** One program, two shapes: a platform, or a preview of a branch on one. */
export async function buildStack(config: InfraConfig) {
  return config.kind === 'platform'
    ? buildPlatform(config, await readControllerRelease(config))
    : buildSlice(config, await readBasePlatform(config.environment))
}
