import { SandboxError } from '../kit/errors.ts'
import type { ModelKind, ModelSettings } from './kind.ts'

type Request = {
  readonly kind: ModelKind
  readonly model?: string | undefined
  readonly charter?: string | undefined
}

export function requiredModel({ kind, model }: Request): string {
  if (model !== undefined) return model
  throw invalidRequest(`an agent of kind ${kind} needs a model: name it in agent.model`)
}

/** The model of a request, or the operator's first one. Throws `invalid_request` if the operator's list does not have it. */
export function offeredModel(request: Request, { names = {} }: Pick<ModelSettings, 'names'>): string {
  const { kind, model } = request
  const offered = names[kind]
  const [preset] = offered ?? []
  if (offered === undefined || preset === undefined) return requiredModel(request)
  if (model === undefined || offered.includes(model)) return model ?? preset
  throw invalidRequest(
    `this service does not offer the model ${model} for agents of kind ${kind}, only ${offered.join(', ')}; the operator can add it to ${SETTING[kind]}`,
  )
}

/** Where the operator lists the models of a kind: on a laptop, and in a cluster. */
const SETTING: Readonly<Record<ModelKind, string>> = {
  copilot: 'AGENTWEAVER_COPILOT_MODELS (in a cluster: models.copilot.names of the environment file)',
  openaiCompatible:
    'AGENTWEAVER_OPENAI_MODELS (in a cluster: models.openaiCompatible.names of the environment file)',
  foundry: 'models.foundry.names of the environment file',
}

/** The charter as an optional field, because the schema of the configuration rejects `undefined`. */
export const charterOf = ({ charter }: Request): { readonly charter?: string } =>
  charter === undefined ? {} : { charter }

/** A part of the configuration of agents that connect to their servers through a proxy that wants a token. */
export const proxyTokenOf = ({ needsProxyToken }: ModelSettings): { readonly proxyToken?: 'required' } =>
  needsProxyToken ? { proxyToken: 'required' } : {}

export const invalidRequest = (message: string) => new SandboxError('invalid_request', message)
