import type { PlaceholderValues } from '../../policies/agent/egress/placeholders.ts'
import type { Environment } from './schema.ts'

/** The environment's values for the placeholders of the egress policy. */
export function placeholderValues({ infra }: Environment): PlaceholderValues {
  if (!infra.azure) return {}
  const { loginHost, vaults, modelHost } = infra.azure
  return {
    'login-host': loginHost,
    'user-token-vault': vaults.userTokens.host,
    ...(modelHost === undefined ? {} : { 'model-host': modelHost }),
  }
}
