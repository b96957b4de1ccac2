import type { ApiEnv } from '../../contracts/api-env.ts'
import { names } from '../../contracts/names.ts'
import { API_PORT } from '../../contracts/ports.ts'
import type { Environment } from '../environment/schema.ts'
import { EXCHANGE_TOKEN } from './token-volumes.ts'

/** The one writable folder of the API: what counts is in the database, so it may go with the pod. */
export const API_STATE_FOLDER = '/var/lib/agentweaver'

type Input = Pick<Environment, 'infra' | 'sizes' | 'slice'>

/** Variables of the API. No secret is among them: it reads its keys from the vault, and the database knows its identity. */
export function apiEnv({ infra, sizes, slice }: Input): Record<string, string> {
  const { runs } = sizes
  const own: Partial<Record<keyof ApiEnv, string>> = {
    AGENTWEAVER_APPROVAL_TTL_SECONDS: String(runs.approvalSeconds),
    AGENTWEAVER_HOST: '::',
    AGENTWEAVER_IDLE_TIMEOUT_SECONDS: String(runs.idleSeconds),
    AGENTWEAVER_MAX_RUNS: String(runs.maxRuns),
    AGENTWEAVER_MAX_RUNS_PER_OWNER: String(runs.maxRunsPerOwner),
    AGENTWEAVER_PORT: String(API_PORT),
    AGENTWEAVER_READY_FORMAT: 'json',
    AGENTWEAVER_RUN_TIMEOUT_SECONDS: String(runs.maxHours * 3600),
    AGENTWEAVER_STATE_DIR: API_STATE_FOLDER,
    DATABASE_URL: databaseUrl(infra, names(slice).serviceAccounts.api),
  }
  return { ...own, ...(infra.azure ? azureEnv(infra.azure) : {}) } as Record<string, string>
}

/** Without a password: the database takes the identity's token in its place. */
function databaseUrl({ database, azure }: Environment['infra'], user: string): string {
  const place = `${user}@${database.host}:${database.port}/${database.name}`
  return `postgresql://${place}${azure ? '?sslmode=verify-full' : ''}`
}

/** The names that Azure's SDKs read by themselves. */
function azureEnv(azure: NonNullable<Environment['infra']['azure']>) {
  return {
    AZURE_AUTHORITY_HOST: `https://${azure.loginHost}/`,
    AZURE_CLIENT_ID: azure.identities.api.clientId,
    AZURE_FEDERATED_TOKEN_FILE: `${EXCHANGE_TOKEN.mountPath}/${EXCHANGE_TOKEN.file}`,
    AZURE_TENANT_ID: azure.tenantId,
  }
}
