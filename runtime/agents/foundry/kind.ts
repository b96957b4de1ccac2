import { SandboxError } from '../../kit/errors.ts'
import type { AgentKind } from '../kind.ts'

/** A model of the Azure AI resource of this deployment. Callers cannot request it yet. */
export const foundry = {
  azureResource: ({ model }) => model.baseUrl,
  create: async ({ model: { name, baseUrl }, charter }, deps) => {
    const { createCopilotAgent } = await import('../copilot/copilot-agent.ts')
    // Azure tokens are valid for about an hour, so the runtime asks for a token before each request.
    const bearerTokenProvider = async () => {
      const token = await deps.fetchToken()
      if (token !== undefined) return token
      throw new SandboxError(
        'credential_absent',
        'An agent of kind foundry needs the Azure identity of its pod',
      )
    }
    return createCopilotAgent(
      {
        name,
        charter,
        server: `The model server at ${baseUrl}`,
        credential: 'the role of the Azure identity on this resource',
        open: async () => ({ model: name, provider: { type: 'openai', baseUrl, bearerTokenProvider } }),
      },
      deps,
    )
  },
} satisfies AgentKind<'foundry'>
