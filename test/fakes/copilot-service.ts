import { type ModelServer, startModelServer } from './model-server.ts'

const MODEL = {
  id: 'gpt-fake',
  name: 'GPT Fake',
  object: 'model',
  vendor: 'OpenAI',
  version: 'gpt-fake',
  model_picker_enabled: true,
  policy: { state: 'enabled' },
  supported_endpoints: ['/chat/completions'],
  capabilities: {
    type: 'chat',
    family: 'gpt-fake',
    tokenizer: 'o200k_base',
    object: 'model_capabilities',
    limits: { max_context_window_tokens: 128_000, max_prompt_tokens: 100_000, max_output_tokens: 8000 },
    supports: { streaming: true, tool_calls: true, parallel_tool_calls: true },
  },
}

type CopilotServiceOptions = Pick<Parameters<typeof startModelServer>[0], 'respond'> & {
  /** The origin in the service's own URLs, if a proxy stands in front of it. @default its own origin */
  readonly publicOrigin?: string
}

/** The parts of GitHub's API and of the Copilot service that the SDK uses: the token's user, the models, the chat. */
export async function startCopilotService({
  respond,
  publicOrigin,
}: CopilotServiceOptions): Promise<CopilotService> {
  const server = await startModelServer({
    respond,
    extra: (path) => {
      if (path.startsWith('/models')) return { data: [MODEL] }
      if (path !== '/copilot_internal/user') return undefined
      const origin = publicOrigin ?? server.origin
      const endpoints = { api: origin, telemetry: origin }
      return { login: 'octo', copilot_plan: 'business', chat_enabled: true, organization_list: [], endpoints }
    },
  })
  return {
    ...server,
    env: { COPILOT_DEBUG_GITHUB_API_URL: server.origin, COPILOT_API_URL: server.origin },
  }
}

export interface CopilotService extends ModelServer {
  /** Environment variables that point the agent runtime to this server. */
  readonly env: Readonly<Record<string, string>>
}
