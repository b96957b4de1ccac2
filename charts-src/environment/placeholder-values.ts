import type { EgressPolicy } from '../../policies/agent/egress/load.ts'
import type { PlaceholderValues } from '../../policies/agent/egress/placeholders.ts'
import type { Environment } from './schema.ts'
import { readsUserVault } from './vault-reader.ts'

/** The environment's values for the placeholders of the policy. AgentHost connects to the vault only if it reads it. */
export function placeholderValues(environment: Environment, policy: EgressPolicy): PlaceholderValues {
  const { azure } = environment.infra
  if (!azure) return {}
  const { loginHost, vaults, modelHost } = azure
  return {
    ...(readsUserVault(environment, policy) && {
      'login-host': loginHost,
      'user-token-vault': vaults.userTokens.host,
    }),
    ...(modelHost === undefined ? {} : { 'model-host': modelHost }),
  }
}
