import type { PlaceholderValues } from '../../policies/agent/egress/placeholders.ts'
import type { Environment } from './schema.ts'

/** The environment's values for the placeholders of the egress policy. */
export function placeholderValues({ infra }: Pick<Environment, 'infra'>): PlaceholderValues {
  if (!infra.azure) return {}
  const { loginHost, vaults, modelHost } = infra.azure
  return {
    'login-host': loginHost,
    'user-token-vault': vaults.userTokens.host,
    ...(modelHost === undefined ? {} : { 'model-host': modelHost }),
  }
}

/** The values for the list of the egress proxy. It omits the vault and the login host, because AgentHost does not read the vault. */
export function listedValues(environment: Pick<Environment, 'infra'>): PlaceholderValues {
  const { 'login-host': _login, 'user-token-vault': _vault, ...others } = placeholderValues(environment)
  return others
}
