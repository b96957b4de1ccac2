import type { Environment } from '../../charts-src/environment/schema.ts'
import type { ConfigProblem, PlatformConfig } from '../../infra/config-sections.ts'

/**
 * The stack decides which alerts exist and which network policies the cluster supports; the environment file decides
 * what runs. With two modes, an alert for the egress proxy is missing or fires for ever.
 */
export function egressProblems(
  { environment: name, egress }: Pick<PlatformConfig, 'environment' | 'egress'>,
  environment: Pick<Environment, 'egress'> | undefined,
): ConfigProblem[] {
  if (environment === undefined || environment.egress.mode === egress.mode) return []
  const message = `is ${egress.mode}, but environments/${name}.json has ${environment.egress.mode}: write the same mode in both files`
  return [{ path: 'egress.mode', message }]
}
