import { SandboxError } from '../../kit/errors.ts'
import type { AgentKind } from '../kind.ts'
import { charterOf, invalidRequest, offeredModel, proxyTokenOf } from '../requested-model.ts'

/** A model of the Azure AI resource of this deployment, with the identity of the pod. */
export const foundry = {
  connectsItself: true,
  resolve: (request, operator) => {
    const { foundryUrl: baseUrl } = operator
    if (!baseUrl) {
      throw invalidRequest(
        'an agent of kind foundry needs an Azure AI resource and the Azure identity of a pod: only a service in a cluster on Azure has them. Name the resource in the stack file (model), run "pulumi up" and "npm run environment", and add models.foundry to the environment file',
      )
    }
    const model = { name: offeredModel(request, operator), baseUrl }
    return {
      agent: { kind: 'foundry', model, ...charterOf(request), ...proxyTokenOf(operator) },
      credential: { kind: 'none' },
    }
  },
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
