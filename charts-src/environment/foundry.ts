import type { Environment } from './schema.ts'

/** Path of the OpenAI-compatible API of an Azure AI resource. */
const PATH = '/openai/v1'

/** Base URL of the models of kind `foundry`, which the API and the egress proxy must know alike. Undefined without such models. */
export function foundryUrl({
  infra: { azure },
  models: { foundry },
}: Pick<Environment, 'infra' | 'models'>): string | undefined {
  return foundry && azure?.modelHost !== undefined ? `https://${azure.modelHost}${PATH}` : undefined
}
