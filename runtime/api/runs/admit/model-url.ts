import type { RequestedAgent } from '../../../../contracts/agents.ts'
import { modelRouteOf } from '../../../agents/registry.ts'
import type { RunDeps } from '../deps.ts'

/**
 * Base URL of the egress proxy for an agent that reaches its model through it, or undefined for others. Throws `unavailable`
 * if the proxy does not run, so that a run without a model does not begin.
 */
export async function modelUrlOf(
  { modelProxy, models }: Pick<RunDeps, 'modelProxy' | 'models'>,
  agent: RequestedAgent | undefined,
): Promise<string | undefined> {
  if (!modelProxy || agent === undefined || !modelRouteOf(agent, models)) return undefined
  return modelProxy.url()
}
