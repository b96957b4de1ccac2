import type { ProviderConfig, SessionConfigBase } from '@github/copilot-sdk'
import type { AgentConfig } from '../../../contracts/configure.ts'
import { SandboxError } from '../../kit/errors.ts'

export type CopilotConfig = Extract<AgentConfig, { kind: 'copilot' | 'openaiCompatible' | 'foundry' }>
export type ModelConfig = Pick<SessionConfigBase, 'model' | 'provider' | 'gitHubToken'>

type FetchToken = () => Promise<string | undefined>

/** Which model a session talks to, and with what credential. Throws `credential_absent` where one is needed. */
export async function modelOf(config: CopilotConfig, fetchToken: FetchToken): Promise<ModelConfig> {
  if (config.kind === 'foundry') return foundryModel(config, fetchToken)
  const token = await fetchToken()
  if (config.kind === 'openaiCompatible') {
    const provider: ProviderConfig = { type: 'openai', baseUrl: config.model.baseUrl }
    return {
      model: config.model.name,
      provider: token === undefined ? provider : { ...provider, apiKey: token },
    }
  }
  if (token === undefined) {
    throw new SandboxError(
      'credential_absent',
      'An agent of kind copilot needs the GitHub token of the run owner',
    )
  }
  // The session's token, not the client's: that one would stand in the environment of the runtime's process.
  return { model: config.model, gitHubToken: token }
}

/** What a session keeps for as long as it is open; a provider of tokens is asked each time. */
export const credentialOf = ({ gitHubToken, provider }: ModelConfig): string | undefined =>
  gitHubToken ?? provider?.apiKey

/** A token of Azure ends within the hour, so the runtime asks for one before each of its requests. */
function foundryModel(
  config: Extract<CopilotConfig, { kind: 'foundry' }>,
  fetchToken: FetchToken,
): ModelConfig {
  const bearerTokenProvider = async () => {
    const token = await fetchToken()
    if (token !== undefined) return token
    throw new SandboxError(
      'credential_absent',
      'An agent of kind foundry needs the Azure identity of its pod',
    )
  }
  return {
    model: config.model.name,
    provider: { type: 'openai', baseUrl: config.model.baseUrl, bearerTokenProvider },
  }
}
