import type { SessionConfigBase } from '@github/copilot-sdk'

export type ModelConfig = Pick<SessionConfigBase, 'model' | 'provider' | 'gitHubToken'>

/** The model of an agent that uses the Copilot SDK. Each kind of agent describes its own. */
export interface CopilotConfig {
  readonly name: string
  readonly charter: string | undefined
  /** The server, as error messages name it. */
  readonly server: string
  /** What to check if the server rejects the credential. */
  readonly credential: string
  /** Returns the settings of a session. Throws `credential_absent` if a required credential is missing. */
  readonly open: () => Promise<ModelConfig>
  /** The egress proxy that serves the requests. Absent if the agent calls its server directly. */
  readonly proxy?: ModelProxy
}

export interface ModelProxy {
  /** Base URL of the model at the proxy. */
  readonly baseUrl: string
  /** Returns the newest token for the proxy. A token ends sooner than a request may have to wait. */
  readonly fetchToken: () => Promise<string>
}

/** The credential that an open session keeps. A token provider is called for every request instead. */
export const credentialOf = ({ gitHubToken, provider }: ModelConfig): string | undefined =>
  gitHubToken ?? provider?.apiKey
