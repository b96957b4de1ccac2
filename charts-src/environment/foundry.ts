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

/** Why the egress proxy needs its second container, which inserts credentials. Undefined if nothing does. */
export const reasonForCredentials = ({
  egress,
  infra,
}: Pick<Environment, 'egress' | 'infra'>): string | undefined => {
  if (egress.credentials) return 'egress.credentials is there'
  return infra.azure
    ? 'infra.azure names a vault, from which this container inserts credentials of owners'
    : undefined
}
