import type { AgentHostEnvInput, REACH_KEYS } from '../../contracts/agent-host-env.ts'
import { EXECUTOR_KEYS, type SandboxKind, WORKSPACE_MOUNT } from '../../contracts/names.ts'
import { IDENTITY_TOKEN, POD_HOMES } from '../../contracts/pod.ts'
import { AGENT_HOST_PORT, EGRESS_PROXY_PORT } from '../../contracts/ports.ts'
import type { PodRunnerEnv } from '../../contracts/runner-env.ts'
import type { Environment, PoolSize } from '../environment/schema.ts'
import type { VaultReader } from '../environment/vault-reader.ts'
import type { EnvVar } from '../imports/k8s.js'
import { toEnvVars } from './env-vars.ts'
import { EXCHANGE_TOKEN } from './token-volumes.ts'

/** Contains no data of a run. A run's data arrives through `/configure`. */
export function agentHostEnv(
  { egress }: Pick<Environment, 'egress'>,
  kind: SandboxKind,
  azure?: VaultReader,
): EnvVar[] {
  return toEnvVars<keyof AgentHostEnvInput | (typeof REACH_KEYS)[number]>({
    AGENT_HOST_INSTANCE_ID: { pod: 'metadata.uid' },
    AGENT_HOST_IDENTITY_TOKEN_FILE: `${IDENTITY_TOKEN.mountPath}/${IDENTITY_TOKEN.file}`,
    AGENT_HOST_JWKS_FILE: `${EXECUTOR_KEYS.mountPath}/${EXECUTOR_KEYS.file}`,
    AGENT_HOST_PORT: String(AGENT_HOST_PORT),
    AGENT_HOST_STATE_DIR: POD_HOMES.agentHost,
    ...(azure ? azureEnv(azure) : {}),
    ...(kind === 'agent' ? wayOut(egress) : {}),
  })
}

/**
 * Names the proxy by address, because the pod has no resolver. AgentHost in a command sandbox connects to
 * nothing outside.
 */
function wayOut(egress: Environment['egress']) {
  const address = proxyAt(egress)
  return address ? { HTTPS_PROXY: `http://${address}`, NO_PROXY: 'localhost,127.0.0.1,::1' } : {}
}

/** The address and the port of the egress proxy's Service. */
function proxyAt({ mode, proxyAddress }: Environment['egress']): string | undefined {
  if (mode !== 'proxy' || proxyAddress === undefined) return undefined
  return `${proxyAddress.includes(':') ? `[${proxyAddress}]` : proxyAddress}:${EGRESS_PROXY_PORT}`
}

function azureEnv(azure: VaultReader) {
  return {
    AGENT_HOST_AZURE_AUTHORITY: `https://${azure.loginHost}`,
    AGENT_HOST_AZURE_CLIENT_ID: azure.identities.agentHost.clientId,
    AGENT_HOST_AZURE_TENANT_ID: azure.tenantId,
    AGENT_HOST_AZURE_TOKEN_FILE: `${EXCHANGE_TOKEN.mountPath}/${EXCHANGE_TOKEN.file}`,
    AGENT_HOST_VAULT_URL: `https://${azure.vaults.userTokens.host}`,
  }
}

/** Commands are stopped before the volume is full, because a full one costs the pod. */
const USABLE = 0.9

/** Contains no secret. The toolbox receives its work over its socket. */
export function toolboxEnv(
  { egress }: Pick<Environment, 'egress'>,
  { workspaceMib }: PoolSize['volumes'],
): EnvVar[] {
  const address = proxyAt(egress)
  return toEnvVars<keyof PodRunnerEnv>({
    ...(address && { AGENTWEAVER_EGRESS_ADDRESS: address }),
    AGENTWEAVER_RUNNER_ROLE: 'online',
    AGENTWEAVER_RUNNER_WORKSPACE: WORKSPACE_MOUNT,
    AGENTWEAVER_RUNNER_WORKSPACE_BYTES: String(Math.floor(workspaceMib * USABLE) * 2 ** 20),
  })
}
