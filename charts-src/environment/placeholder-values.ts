import type { EgressPolicy } from '../../policies/agent/egress/load.ts'
import type { PlaceholderValues } from '../../policies/agent/egress/placeholders.ts'
import type { Environment } from './schema.ts'
import { readsUserVault } from './vault-reader.ts'

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

/** The values for the list of the API. It omits the vault and the login host if AgentHost does not read the vault. */
export function listedValues(environment: Environment, policy: EgressPolicy): PlaceholderValues {
  const values = placeholderValues(environment)
  if (readsUserVault(environment, policy)) return values
  const { 'login-host': _login, 'user-token-vault': _vault, ...others } = values
  return others
}
