import type { AgentConfig, RequestedAgent } from '../../../../contracts/agents.ts'
import { connectsItself, resolveAgent } from '../../../agents/registry.ts'
import type { RunDeps } from '../deps.ts'
import { modelUrlOf } from './model-url.ts'

/**
 * Completes the agent of a request. Throws if no run with this agent can start now: `invalid_request` if the operator does
 * not offer it or has not configured it, `unavailable` if its way to the model is interrupted. The list of models asks the
 * same function.
 */
export async function admitAgent(
  deps: Pick<RunDeps, 'modelProxy' | 'models'>,
  request: RequestedAgent,
  owner: string,
): Promise<RequestedAgent> {
  const named = withModel(request, resolveAgent(request, deps.models, owner).agent)
  await modelUrlOf(deps, named)
  if (connectsItself(named)) await deps.modelProxy?.requireRunning?.()
  return named
}

/** The model is stored with the run, so that the run keeps it when the operator changes the default. */
function withModel(request: RequestedAgent, agent: AgentConfig): RequestedAgent {
  if (request.kind === 'scripted' || !('model' in agent)) return request
  return { ...request, model: typeof agent.model === 'string' ? agent.model : agent.model.name }
}
