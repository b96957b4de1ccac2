import type { PlaceholderValues } from '../../policies/agent/egress/placeholders.ts'
import type { Environment } from './schema.ts'

/** What the environment puts in place of the placeholders of the policy file. */
export function placeholderValues({ infra }: Environment): PlaceholderValues {
  if (!infra.azure) return {}
  const { loginHost, vaults, modelHost } = infra.azure
  return {
    'login-host': loginHost,
    'user-token-vault': vaults.userTokens.host,
    ...(modelHost === undefined ? {} : { 'model-host': modelHost }),
  }
}
