import type { AgentDeps } from './agent.ts'
import type { ModelConfig, ModelProxy } from './copilot/model-config.ts'

/** The environment of the model runtime, with a server that it connects to itself. */
const withoutProxy = (env: Readonly<Record<string, string>> = {}, url: string) => ({
  ...env,
  NO_PROXY: [env['NO_PROXY'], new URL(url).hostname].filter(Boolean).join(','),
})

/** A model that the agent calls at the egress proxy, which replaces the token of the sandbox by the credential of the server. */
export function proxiedModel(
  { name, baseUrl }: { readonly name: string; readonly baseUrl: string },
  { runtimeEnv, ...others }: AgentDeps,
) {
  // The model runtime would send the requests for the egress proxy to the egress proxy as a proxy.
  const deps: AgentDeps = { ...others, runtimeEnv: withoutProxy(runtimeEnv, baseUrl) }
  const bearerTokenProvider = deps.fetchEgressToken
  const open = async (): Promise<ModelConfig> => ({
    model: name,
    provider: { type: 'openai', baseUrl, bearerTokenProvider },
  })
  const proxy: ModelProxy = { baseUrl, fetchToken: bearerTokenProvider }
  return { deps, open, proxy }
}
