import { MODEL_CREDENTIAL } from '../../../contracts/egress.ts'
import type { AgentKind } from '../kind.ts'
import { charterOf, invalidRequest, offeredModel, requiredModel } from '../requested-model.ts'

/** The environment of the model runtime, with a server that it connects to itself. */
const withoutProxy = (env: Readonly<Record<string, string>> = {}, url: string) => ({
  ...env,
  NO_PROXY: [env['NO_PROXY'], new URL(url).hostname].filter(Boolean).join(','),
})

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
  create: async ({ model: { name, baseUrl, server }, charter }, { runtimeEnv, ...others }) => {
    // The model runtime would send the requests for the egress proxy to the egress proxy as a proxy.
    const env = server === undefined ? runtimeEnv : withoutProxy(runtimeEnv, baseUrl)
    const deps = { ...others, ...(env && { runtimeEnv: env }) }
    const { createCopilotAgent } = await import('../copilot/copilot-agent.ts')
    const open = async () => {
      if (server !== undefined) {
        // The egress proxy replaces the token by the key of the server.
        const bearerTokenProvider = deps.fetchEgressToken
        return { model: name, provider: { type: 'openai' as const, baseUrl, bearerTokenProvider } }
      }
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
        server: `The model server at ${server ?? baseUrl}`,
        credential: 'the API key of this endpoint',
        open,
      },
      deps,
    )
  },
} satisfies AgentKind<'openaiCompatible'>
