import type { AgentHostEnv } from '../../../contracts/agent-host-env.ts'
import type { WorkloadIdentity } from '../../azure/workload-identity.ts'

/** Azure identity and addresses from the environment; undefined on a laptop. */
export type AzureSettings = {
  readonly identity: WorkloadIdentity
  readonly vaultUrl?: string
}

export function azureSettings(env: AgentHostEnv): AzureSettings | undefined {
  const {
    AGENT_HOST_AZURE_CLIENT_ID: clientId,
    AGENT_HOST_AZURE_TENANT_ID: tenantId,
    AGENT_HOST_AZURE_TOKEN_FILE: tokenFile,
    AGENT_HOST_AZURE_AUTHORITY: authority,
    AGENT_HOST_VAULT_URL: vaultUrl,
  } = env
  if (clientId === undefined || tenantId === undefined || tokenFile === undefined) return undefined
  return {
    identity: { clientId, tenantId, authority, tokenFile },
    ...(vaultUrl !== undefined && { vaultUrl }),
  }
}
