import type { AgentKind } from '../kind.ts'
import { charterOf, invalidRequest, requiredModel } from '../requested-model.ts'

/** Any endpoint that implements the chat completions API, with or without a key. */
export const openaiCompatible = {
  resolve: (request, { openaiBaseUrl: baseUrl, openaiApiKey: token }) => {
    if (!baseUrl) {
      throw invalidRequest(
        'an agent of kind openaiCompatible needs an endpoint: start the service with OPENAI_BASE_URL',
      )
    }
    const model = { name: requiredModel(request), baseUrl }
    return {
      agent: { kind: 'openaiCompatible', model, ...charterOf(request) },
      credential: token === undefined ? { kind: 'none' } : { kind: 'token', token },
    }
  },
  create: async ({ model: { name, baseUrl }, charter }, deps) => {
    const { createCopilotAgent } = await import('../copilot/copilot-agent.ts')
    const open = async () => {
      const apiKey = await deps.fetchToken()
      return {
        model: name,
        provider: { type: 'openai' as const, baseUrl, ...(apiKey !== undefined && { apiKey }) },
      }
    }
    return createCopilotAgent(
      {
        name,
        charter,
        server: `The model server at ${baseUrl}`,
        credential: 'the API key of this endpoint',
        open,
      },
      deps,
    )
  },
} satisfies AgentKind<'openaiCompatible'>
