import * as z from 'zod'
import { RequestedKind } from './agents.ts'

/** Names of models with commas between them, beginning with the default. */
const ModelNames = z
  .string()
  .regex(
    /^[\x21-\x2b\x2d-\x7e]{1,256}(,[\x21-\x2b\x2d-\x7e]{1,256}){0,63}$/,
    'must be names with commas between them',
  )
  .transform((text) => text.split(','))

/** Base URL of an Azure AI resource, such as `https://NAME.openai.azure.com/openai/v1`. */
export const FoundryUrl = z
  .url({ protocol: /^https$/ })
  .regex(/^[^@?#]+$/, 'must have no user, query or fragment')

const Kinds = z
  .string()
  .transform((text) => text.split(','))
  .pipe(z.array(RequestedKind).min(1))

/** Settings that say which agents and models callers may request. */
export const MODEL_ENV = {
  /** The kinds of agents that callers may request, with commas between them. The default is every kind. */
  AGENTWEAVER_AGENT_KINDS: Kinds.optional(),
  /** The models of each kind, beginning with its default. Without a list, a caller may name any model. */
  AGENTWEAVER_OPENAI_MODELS: ModelNames.optional(),
  AGENTWEAVER_COPILOT_MODELS: ModelNames.optional(),
  AGENTWEAVER_FOUNDRY_MODELS: ModelNames.optional(),
  /** Base URL of the Azure AI resource for agents of kind `foundry`. The egress proxy calls it with its Azure identity. */
  AGENTWEAVER_FOUNDRY_URL: FoundryUrl.optional(),
} as const
