import type { PlaceholderValues } from '../../policies/agent/egress/placeholders.ts'
import type { Environment } from './schema.ts'

type Around = Pick<Environment, 'infra'>

/** The values for the list of the egress proxy. The vault of users' tokens is not on it, because AgentHost does not read the vault. */
export function listedValues({ infra: { azure } }: Around): PlaceholderValues {
  return azure?.modelHost === undefined ? {} : { 'model-host': azure.modelHost }
}

/** All values of the environment for the placeholders of the egress policy. */
export function placeholderValues({ infra }: Around): PlaceholderValues {
  if (!infra.azure) return {}
  const { loginHost, vaults } = infra.azure
  return { 'login-host': loginHost, 'user-token-vault': vaults.userTokens.host, ...listedValues({ infra }) }
}
