import type { RequestedAgent } from '../../../../contracts/api.ts'
import type { AgentConfig, Credential } from '../../../../contracts/configure.ts'
import { SandboxError } from '../../../kit/errors.ts'
import type { ModelConfig } from '../deps.ts'

export type ResolvedAgent = { readonly agent: AgentConfig; readonly credential: Credential }

const missing = (message: string) => new SandboxError('invalid_request', message)

function modelOf(agent: { kind: string; model?: string | undefined }): string {
  if (agent.model !== undefined) return agent.model
  throw missing(`an agent of kind ${agent.kind} needs a model: name it in agent.model`)
}

/** What a sandbox is told of its agent: the caller's wish, joined with the operator's endpoint and credential. */
export function resolveAgent(
  agent: RequestedAgent | undefined,
  models: ModelConfig,
  owner: string,
): ResolvedAgent {
  if (agent === undefined) return { agent: { kind: 'none' }, credential: { kind: 'none' } }
  const charter = 'charter' in agent && agent.charter !== undefined ? { charter: agent.charter } : {}
  switch (agent.kind) {
    case 'scripted':
      return { agent, credential: { kind: 'none' } }
    case 'copilot':
      return {
        agent: { kind: 'copilot', model: modelOf(agent), ...charter },
        credential: copilotCredential(models, owner),
      }
    case 'openaiCompatible': {
      if (!models.openaiBaseUrl) {
        throw missing(
          'an agent of kind openaiCompatible needs an endpoint: start the service with OPENAI_BASE_URL',
        )
      }
      const token = models.openaiApiKey
      return {
        agent: {
          kind: 'openaiCompatible',
          model: { name: modelOf(agent), baseUrl: models.openaiBaseUrl },
          ...charter,
        },
        credential: token === undefined ? { kind: 'none' } : { kind: 'token', token },
      }
    }
  }
}

/** The owner's own token, by its name in the vault; where there is no vault, the operator's. */
function copilotCredential({ secretNameOf, copilotToken }: ModelConfig, owner: string): Credential {
  if (secretNameOf) return { kind: 'keyVault', secretName: secretNameOf(owner) }
  if (copilotToken) return { kind: 'token', token: copilotToken }
  throw missing('an agent of kind copilot needs a token: start the service with COPILOT_GITHUB_TOKEN')
}
