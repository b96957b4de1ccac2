import type { ApiEnv } from '../../contracts/api-env.ts'
import { UPSTREAM_PROXY_KEY } from '../../contracts/egress-proxy-env.ts'
import { RUNTIME_CLASSES } from '../../contracts/labels.ts'
import { names } from '../../contracts/names.ts'
import { API_PORT, EGRESS_CONTROL_PORT, METRICS_PORT } from '../../contracts/ports.ts'
import { foundryUrl } from '../environment/foundry.ts'
import { gitHubAppServers } from '../environment/github-apps.ts'
import type { Environment } from '../environment/schema.ts'
import { apiHosts } from '../workloads.ts'
import { CEILING_FILE, CREDENTIALS_FILE, EGRESS_FILE, ROOTS_FILE } from './policy-files.ts'
import { signInEnv } from './sign-in-env.ts'
import { EXCHANGE_TOKEN } from './token-volumes.ts'

/**
 * The only writable folder of the API. It may vanish with the pod, because all durable state is in the
 * database.
 */
export const API_STATE_FOLDER = '/var/lib/agentweaver'

/** Mount path of the service's keys when no vault stores them. */
export const API_KEYS_FOLDER = '/etc/agentweaver/keys'

type Input = Pick<
  Environment,
  'egress' | 'infra' | 'isolation' | 'models' | 'signIn' | 'sizes' | 'slice' | 'traces'
>

/**
 * Environment variables of the API. None is secret: the API reads its keys from the vault and logs in to the
 * database with its identity.
 */
export function apiEnv(input: Input): Record<string, string> {
  const { egress, infra, isolation, models, signIn, sizes, slice } = input
  const { runs } = sizes
  const hosts = apiHosts(slice, infra.dns)
  const own: Partial<Record<keyof ApiEnv, string>> = {
    ...sandboxEnv(slice, isolation),
    AGENTWEAVER_ALLOWED_HOSTS: [hosts.public, ...hosts.inCluster].join(','),
    AGENTWEAVER_APPROVAL_TTL_SECONDS: String(runs.approvalSeconds),
    AGENTWEAVER_CEILING_FILE: CEILING_FILE,
    ...(egress.mode === 'proxy' && {
      AGENTWEAVER_EGRESS_CONTROL_PORT: String(EGRESS_CONTROL_PORT),
      AGENTWEAVER_EGRESS_FILE: EGRESS_FILE,
    }),
    ...(egress.credentials && { AGENTWEAVER_CREDENTIALS_FILE: CREDENTIALS_FILE }),
    ...modelEnv({ egress, infra, models }),
    ...signInEnv(signIn),
    ...(egress.roots && { AGENTWEAVER_EGRESS_ROOTS_FILE: ROOTS_FILE }),
    ...(egress.isNetworkEncrypted && { AGENTWEAVER_NETWORK_ENCRYPTED: 'true' }),
    ...(egress.upstreamProxy && { [UPSTREAM_PROXY_KEY]: egress.upstreamProxy.url }),
    ...loadEnv(sizes.api),
    AGENTWEAVER_CHECKPOINT_EVERY_SECONDS: String(runs.checkpointSeconds),
    AGENTWEAVER_HOST: '::',
    AGENTWEAVER_IDLE_TIMEOUT_SECONDS: String(runs.idleSeconds),
    AGENTWEAVER_MAX_LAUNCHES: String(runs.maxLaunches),
    AGENTWEAVER_MAX_QUEUED: String(runs.maxQueued),
    AGENTWEAVER_MAX_QUEUED_PER_OWNER: String(runs.maxQueuedPerOwner),
    AGENTWEAVER_MAX_RUNS: String(runs.maxRuns),
    AGENTWEAVER_MAX_RUNS_PER_OWNER: String(runs.maxRunsPerOwner),
    AGENTWEAVER_MAX_STORED_BYTES_PER_OWNER: String(runs.storedGibPerOwner * 2 ** 30),
    AGENTWEAVER_METRICS_PORT: String(METRICS_PORT),
    AGENTWEAVER_PORT: String(API_PORT),
    AGENTWEAVER_QUEUE_TIMEOUT_SECONDS: String(runs.queueSeconds),
    AGENTWEAVER_READY_FORMAT: 'json',
    AGENTWEAVER_RUN_TIMEOUT_SECONDS: String(runs.maxHours * 3600),
    // A subfolder, because the root of the volume belongs to root.
    AGENTWEAVER_STATE_DIR: `${API_STATE_FOLDER}/state`,
    DATABASE_URL: databaseUrl(infra, names(slice).serviceAccounts.api),
  }
  const keys = infra.azure ? azureEnv(infra.azure) : { AGENTWEAVER_KEYS_DIR: API_KEYS_FOLDER }
  // The issuer, or GitHub Enterprise, may have a certificate of the company's own authority. Node itself reads this variable.
  const isCaller = signIn !== undefined || gitHubAppServers(egress).length > 0
  const trust = isCaller && egress.roots ? { NODE_EXTRA_CA_CERTS: ROOTS_FILE } : {}
  return { ...own, ...keys, ...trust, ...tracesEnv(input.traces) } as Record<string, string>
}

/**
 * The agents that callers can request. Agents of the kinds `openaiCompatible` and `foundry` reach their model through the egress
 * proxy, which inserts its key, or a token of its Azure identity.
 */
function modelEnv({
  egress,
  infra,
  models,
}: Pick<Input, 'egress' | 'infra' | 'models'>): Partial<Record<keyof ApiEnv, string>> {
  const { openaiCompatible, copilot, foundry } = models
  const { credential } = openaiCompatible ?? {}
  const azureAi = foundryUrl({ infra, models })
  const isProxied = openaiCompatible !== undefined || foundry !== undefined
  return {
    AGENTWEAVER_AGENT_KINDS: [
      'scripted',
      ...(openaiCompatible ? ['openaiCompatible'] : []),
      ...(copilot ? ['copilot'] : []),
      ...(foundry ? ['foundry'] : []),
    ].join(','),
    ...(isProxied &&
      egress.proxyAddress !== undefined && { AGENTWEAVER_EGRESS_PROXY_ADDRESS: egress.proxyAddress }),
    ...(openaiCompatible && {
      OPENAI_BASE_URL: openaiCompatible.baseUrl,
      AGENTWEAVER_OPENAI_MODELS: openaiCompatible.names.join(','),
      ...(credential !== undefined && { AGENTWEAVER_MODEL_CREDENTIAL: credential }),
    }),
    ...(copilot && { AGENTWEAVER_COPILOT_MODELS: copilot.names.join(',') }),
    ...(foundry &&
      azureAi !== undefined && {
        AGENTWEAVER_FOUNDRY_URL: azureAi,
        AGENTWEAVER_FOUNDRY_MODELS: foundry.names.join(','),
      }),
  }
}

/** Limits and log level of each replica. The service has defaults. */
function loadEnv({
  requestsPerMinute,
  maxStreams,
  maxStreamsPerOwner,
  logLevel,
}: Environment['sizes']['api']): Partial<Record<keyof ApiEnv, string>> {
  return {
    ...(requestsPerMinute !== undefined && { AGENTWEAVER_RATE_LIMIT_PER_MINUTE: String(requestsPerMinute) }),
    ...(maxStreams !== undefined && { AGENTWEAVER_MAX_STREAMS: String(maxStreams) }),
    ...(maxStreamsPerOwner !== undefined && {
      AGENTWEAVER_MAX_STREAMS_PER_KEY: String(maxStreamsPerOwner),
    }),
    ...(logLevel !== undefined && { AGENTWEAVER_LOG_LEVEL: logLevel }),
  }
}

/** Standard variables of OpenTelemetry. */
const tracesEnv = (traces: Input['traces']): Record<string, string> =>
  traces
    ? {
        OTEL_EXPORTER_OTLP_ENDPOINT: traces.collector,
        ...(traces.share !== undefined && {
          OTEL_TRACES_SAMPLER: 'parentbased_traceidratio',
          OTEL_TRACES_SAMPLER_ARG: String(traces.share),
        }),
      }
    : {}

/** Where the API finds its sandboxes, and the properties that each sandbox must have. */
function sandboxEnv(
  slice: Input['slice'],
  isolation: Input['isolation'],
): Partial<Record<keyof ApiEnv, string>> {
  return {
    AGENTWEAVER_DEPLOYMENT_ID: names(slice).prefix,
    AGENTWEAVER_RUNTIME_CLASS: isolation === 'none' ? 'none' : RUNTIME_CLASSES[isolation].name,
    AGENTWEAVER_SANDBOXES: 'kubernetes',
    ...(slice.kind === 'preview' && { AGENTWEAVER_PREVIEW_SLUG: slice.slug }),
  }
}

/** Without a password: the identity's token takes its place. */
function databaseUrl({ database, azure }: Environment['infra'], user: string): string {
  const place = `${user}@${database.host}:${database.port}/${database.name}`
  return `postgresql://${place}${azure ? '?sslmode=verify-full' : ''}`
}

/** The service's identity opens its keys, user tokens and database. */
function azureEnv(azure: NonNullable<Environment['infra']['azure']>) {
  return {
    AGENTWEAVER_DATABASE_AUTH: 'entra',
    AGENTWEAVER_KEY_VAULT: `https://${azure.vaults.controlPlane.host}`,
    AGENTWEAVER_USER_VAULT: 'true',
    AGENTWEAVER_USER_VAULT_URL: `https://${azure.vaults.userTokens.host}`,
    ...azureLogin(azure, azure.identities.api.clientId),
  }
}

/** Variables with which a pod logs in to Azure as an identity. */
export function azureLogin(
  azure: Pick<NonNullable<Environment['infra']['azure']>, 'loginHost' | 'tenantId'>,
  clientId: string,
) {
  return {
    AZURE_AUTHORITY_HOST: `https://${azure.loginHost}/`,
    AZURE_CLIENT_ID: clientId,
    AZURE_FEDERATED_TOKEN_FILE: `${EXCHANGE_TOKEN.mountPath}/${EXCHANGE_TOKEN.file}`,
    AZURE_TENANT_ID: azure.tenantId,
  }
}
