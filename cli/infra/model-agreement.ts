import type { Environment } from '../../charts-src/environment/schema.ts'
import type { ConfigProblem, PlatformConfig } from '../../infra/config-sections.ts'

/**
 * The stack gives the identity of the egress proxy its role on the model resource; the environment file names the resource that
 * the proxy calls. With two resources, Azure rejects every request of agents of kind `foundry`.
 */
export function modelProblems(
  { environment: name, model }: Pick<PlatformConfig, 'environment' | 'model'>,
  environment: Pick<Environment, 'infra' | 'models'> | undefined,
): ConfigProblem[] {
  const host = environment?.infra.azure?.modelHost
  if (!environment?.models.foundry || model?.host === host) return []
  const path = model === undefined ? 'model' : 'model.host'
  const message = `is ${model?.host ?? 'missing'}, but environments/${name}.json has models.foundry and the resource ${host}: name the same resource in both files`
  return [{ path, message }]
}
