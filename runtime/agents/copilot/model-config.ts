import type { ProviderConfig, SessionConfigBase } from '@github/copilot-sdk'
import type { AgentConfig } from '../../../contracts/configure.ts'
import { SandboxError } from '../../kit/errors.ts'

export type CopilotConfig = Extract<AgentConfig, { kind: 'copilot' | 'openaiCompatible' | 'foundry' }>
export type ModelConfig = Pick<SessionConfigBase, 'model' | 'provider' | 'gitHubToken'>

type FetchToken = () => Promise<string | undefined>

/** The model and the credential of a session. Throws `credential_absent` if a required one is missing. */
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
  // Set on the session. A token of the client would be in the environment of the runtime's process.
  return { model: config.model, gitHubToken: token }
}

/** The credential that an open session keeps. A token provider is called for every request instead. */
export const credentialOf = ({ gitHubToken, provider }: ModelConfig): string | undefined =>
  gitHubToken ?? provider?.apiKey

/** Azure tokens are valid for about an hour, so the runtime asks for a token before each request. */
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
