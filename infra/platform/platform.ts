import { Budget } from '../components/budget.ts'
import type { PlatformConfig } from '../config-sections.ts'
import { CONTROLLER_FILES, type KubeManifest } from '../plans/controller-release.ts'
import { platformNames } from '../plans/platform-names.ts'
import { layGround } from './ground.ts'
import { installController, raiseCluster } from './machines.ts'
import { raiseServices } from './services.ts'

/** A whole platform, from its network to the controller. */
export function buildPlatform(config: PlatformConfig, release: readonly KubeManifest[]) {
  const names = platformNames(config)
  const ground = layGround(config, names)
  const machines = raiseCluster(config, names, ground)
  installController(config, names, { ...ground, ...machines, release })
  const infra = raiseServices(config, names, { ...ground, ...machines })
  new Budget(names.base, { scope: ground.group.groupId, budget: config.budget }, ground.options)
  return {
    infra,
    resourceGroups: [names.resourceGroup, names.nodeResourceGroup],
    leftOnDestroy: retained(config),
  }
}

/** What a removal of the controller leaves in the cluster, so that sandboxes survive it: its types. */
function retained({ controller }: PlatformConfig): string[] {
  if (controller.install !== 'upstream') return []
  return CONTROLLER_FILES.flatMap(({ objects }) => objects)
    .filter(({ kind }) => kind === 'CustomResourceDefinition')
    .map(({ name }) => name)
}
