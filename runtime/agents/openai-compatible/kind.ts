import { MODEL_CREDENTIAL } from '../../../contracts/egress.ts'
import type { AgentDeps } from '../agent.ts'
import type { ModelConfig } from '../copilot/model-config.ts'
import type { AgentKind } from '../kind.ts'
import { proxiedModel } from '../proxied-model.ts'
import { charterOf, invalidRequest, offeredModel, requiredModel } from '../requested-model.ts'

/** A server that the agent connects to itself, with its key or without one. */
function directModel(
  { name, baseUrl }: { readonly name: string; readonly baseUrl: string },
  deps: AgentDeps,
): { readonly deps: AgentDeps; readonly open: () => Promise<ModelConfig> } {
  const open = async (): Promise<ModelConfig> => {
    const apiKey = await deps.fetchToken()
    return { model: name, provider: { type: 'openai', baseUrl, ...(apiKey !== undefined && { apiKey }) } }
  }
  return { deps, open }
}

/** Any endpoint that implements the chat completions API, with or without a key. */
export const openaiCompatible = {
  resolve: (request, operator) => {
    const { openaiBaseUrl: server, openaiApiKey: token, egressUrl } = operator
    if (!server) {
      throw invalidRequest(
        'an agent of kind openaiCompatible needs an endpoint: start the service with OPENAI_BASE_URL (in a cluster: models.openaiCompatible of the environment file)',
      )
    }
    if (operator.lacksModelKey?.(operator.owner))
      throw invalidRequest(
        `an agent of kind openaiCompatible needs your key of ${server}: set it with "agentweaver credential set openai-compatible"`,
      )
    const name = offeredModel(request, operator)
    const agent = { kind: 'openaiCompatible', ...charterOf(request) } as const
    if (egressUrl !== undefined)
      return {
        agent: { ...agent, model: { name, baseUrl: egressUrl, server } },
        credential: { kind: 'none' },
      }
    return {
      agent: { ...agent, model: { name, baseUrl: server } },
      credential: token === undefined ? { kind: 'none' } : { kind: 'token', token },
    }
  },
  route: (request, { openaiBaseUrl: upstream, openaiApiKey: token, modelCredential, serverTools }) =>
    upstream === undefined
      ? undefined
      : {
          upstream,
          header: 'authorization',
          models: [requiredModel(request)],
          ...(serverTools && { serverTools }),
          ...(token !== undefined && { credential: MODEL_CREDENTIAL }),
          ...(modelCredential !== undefined && { credential: modelCredential }),
        },
  create: async ({ model, charter }, given) => {
    const { name, baseUrl, server } = model
    const { deps, ...calls } = server === undefined ? directModel(model, given) : proxiedModel(model, given)
    const { createCopilotAgent } = await import('../copilot/copilot-agent.ts')
    return createCopilotAgent(
      {
        name,
        charter,
        server: `The model server at ${server ?? baseUrl}`,
        credential: 'the API key of this endpoint',
        ...calls,
      },
      deps,
    )
  },
} satisfies AgentKind<'openaiCompatible'>
