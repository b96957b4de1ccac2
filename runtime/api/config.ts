import { availableParallelism } from 'node:os'
import { resolve } from 'node:path'
import { API_ENV_PREFIX, ApiEnv, CLIENT_ENV_KEYS } from '../../contracts/api-env.ts'
import { missingInPod } from '../../contracts/api-pod-env.ts'
import { AZURE_KEYS } from '../../contracts/azure-identity-env.ts'
import { UPSTREAM_PROXY_KEY } from '../../contracts/egress-proxy-env.ts'
import type { SignInMethods } from '../../contracts/sign-in.ts'
import { type WorkloadIdentity, workloadIdentityOf } from '../azure/workload-identity.ts'
import { SandboxError } from '../kit/errors.ts'
import { type EnvSource, parseEnv } from '../kit/parse-env.ts'
import { present } from '../kit/present.ts'
import { configDirOf, defaultStateDir, stateDirOf } from '../state-folder/places.ts'
import { socketPlaceOf } from '../state-folder/socket-place.ts'
import type { SignInSettings } from './people/sign-in.ts'

/** The service's configuration in final units. Other code has no defaults. */
export type ApiConfig = ReturnType<typeof readConfig>

/** Keys without our prefix that the service reads. */
const SHARED_KEYS = [
  'DATABASE_URL',
  'OPENAI_BASE_URL',
  'OPENAI_API_KEY',
  'COPILOT_GITHUB_TOKEN',
  ...AZURE_KEYS,
]
/** A run fails if its upload takes longer than this. */
const UPLOAD_TIMEOUT_MS = 900_000
const seconds = (count: number) => count * 1000

/** Parses the environment. Throws `invalid_config` with all problems. */
export function readConfig(source: EnvSource, { home, cwd }: { home: string; cwd: string }) {
  refuseLaptopDefaults(source)
  const env = parseEnv(ApiEnv, source, { prefix: API_ENV_PREFIX, also: SHARED_KEYS, except: CLIENT_ENV_KEYS })
  const stateDir = stateDirOf({ env: source, home, cwd })
  const socket = socketPlaceOf(stateDir, source)
  return Object.freeze({
    home,
    /** The user whose git configuration applies to folders of this machine. */
    gitUser: {
      home,
      configHome: absolute(source['XDG_CONFIG_HOME']),
      globalConfig: absolute(source['GIT_CONFIG_GLOBAL']),
    },
    host: env.AGENTWEAVER_HOST,
    port: env.AGENTWEAVER_PORT,
    allowedHosts: env.AGENTWEAVER_ALLOWED_HOSTS ?? [],
    stateDir,
    isStateDirNamed: env.AGENTWEAVER_STATE_DIR !== undefined,
    socket,
    /** Folders with keys of this user. A workspace must not contain one, or be inside one. */
    privateFolders: [
      stateDir,
      defaultStateDir({ env: source, home }),
      configDirOf({ env: source, home }),
      socket.folder,
    ],
    store: env.DATABASE_URL
      ? ({ kind: 'postgres', url: env.DATABASE_URL, auth: env.AGENTWEAVER_DATABASE_AUTH } as const)
      : ({ kind: 'sqlite', file: resolve(stateDir, 'store.db') } as const),
    keys: readKeysPlace(env, { cwd, stateDir }),
    identity: readIdentity(env),
    metricsPort: env.AGENTWEAVER_METRICS_PORT,
    egressControlPort: env.AGENTWEAVER_EGRESS_CONTROL_PORT,
    egressProxyAddress: env.AGENTWEAVER_EGRESS_PROXY_ADDRESS,
    sandboxes: readSandboxes(env, cwd),
    // Pods cannot see folders of the service's machine.
    workspaceRoots: env.AGENTWEAVER_SANDBOXES === 'local' ? (env.AGENTWEAVER_WORKSPACE_ROOTS ?? [home]) : [],
    isolation: env.AGENTWEAVER_ISOLATION,
    isDirectAllowed: env.AGENTWEAVER_DIRECT,
    toolRoots: env.AGENTWEAVER_TOOL_ROOTS ?? [],
    egressFile: pathIn(cwd, env.AGENTWEAVER_EGRESS_FILE),
    credentialsFile: pathIn(cwd, env.AGENTWEAVER_CREDENTIALS_FILE),
    egressRootsFile: pathIn(cwd, env.AGENTWEAVER_EGRESS_ROOTS_FILE),
    egressUpstreamProxy: env[UPSTREAM_PROXY_KEY],
    isNetworkEncrypted: env.AGENTWEAVER_NETWORK_ENCRYPTED ?? false,
    ceilingFile: pathIn(cwd, env.AGENTWEAVER_CEILING_FILE),
    limits: readLimits(env),
    rateLimitPerMinute: env.AGENTWEAVER_RATE_LIMIT_PER_MINUTE,
    streams: { perKey: env.AGENTWEAVER_MAX_STREAMS_PER_KEY, inAll: env.AGENTWEAVER_MAX_STREAMS },
    logLevel: env.AGENTWEAVER_LOG_LEVEL,
    readyFormat: env.AGENTWEAVER_READY_FORMAT,
    hasLifeline: env.AGENTWEAVER_LIFELINE,
    parentPid: env.AGENTWEAVER_PARENT_PID,
    hasUserVault: env.AGENTWEAVER_USER_VAULT ?? false,
    userVaultUrl: env.AGENTWEAVER_USER_VAULT_URL,
    models: readModels(env),
    signIn: readSignIn(env),
    signInMethods: readSignInMethods(env),
  })
}

/** Undefined without an issuer: then API keys are the only credentials. */
const readSignIn = (env: ApiEnv): SignInSettings | undefined =>
  env.AGENTWEAVER_OIDC_ISSUER && env.AGENTWEAVER_OIDC_AUDIENCE && env.AGENTWEAVER_OIDC_ROLES
    ? {
        issuer: env.AGENTWEAVER_OIDC_ISSUER,
        audience: env.AGENTWEAVER_OIDC_AUDIENCE,
        ownerClaims: env.AGENTWEAVER_OIDC_OWNER_CLAIMS ?? ['sub'],
        rolesClaim: env.AGENTWEAVER_OIDC_ROLES_CLAIM ?? 'roles',
        roles: env.AGENTWEAVER_OIDC_ROLES,
      }
    : undefined

/** What the command line needs to sign a person in. */
const readSignInMethods = (env: ApiEnv): SignInMethods =>
  env.AGENTWEAVER_OIDC_ISSUER && env.AGENTWEAVER_OIDC_CLIENT_ID
    ? {
        oidc: {
          issuer: env.AGENTWEAVER_OIDC_ISSUER,
          clientId: env.AGENTWEAVER_OIDC_CLIENT_ID,
          scopes: env.AGENTWEAVER_OIDC_SCOPES ?? ['openid', 'offline_access'],
          deviceCode: env.AGENTWEAVER_OIDC_DEVICE_CODE ?? true,
          ...(env.AGENTWEAVER_OIDC_RESOURCE && { resource: env.AGENTWEAVER_OIDC_RESOURCE }),
        },
      }
    : {}

const readModels = (env: ApiEnv) => ({
  ...(env.OPENAI_BASE_URL && { openaiBaseUrl: env.OPENAI_BASE_URL }),
  ...(env.OPENAI_API_KEY && { openaiApiKey: env.OPENAI_API_KEY }),
  ...(env.AGENTWEAVER_MODEL_CREDENTIAL && { modelCredential: env.AGENTWEAVER_MODEL_CREDENTIAL }),
  ...(env.AGENTWEAVER_MODEL_SERVER_TOOLS && { serverTools: env.AGENTWEAVER_MODEL_SERVER_TOOLS }),
  ...(env.COPILOT_GITHUB_TOKEN && { copilotToken: env.COPILOT_GITHUB_TOKEN }),
  ...(env.AGENTWEAVER_FOUNDRY_URL && { foundryUrl: env.AGENTWEAVER_FOUNDRY_URL }),
  ...(env.AGENTWEAVER_AGENT_KINDS && { kinds: env.AGENTWEAVER_AGENT_KINDS }),
  names: present({
    openaiCompatible: env.AGENTWEAVER_OPENAI_MODELS,
    copilot: env.AGENTWEAVER_COPILOT_MODELS,
    foundry: env.AGENTWEAVER_FOUNDRY_MODELS,
  }),
})

/** Limits on runs. Times are in milliseconds. */
const readLimits = (env: ApiEnv) => ({
  maxRuns: env.AGENTWEAVER_MAX_RUNS,
  maxRunsPerOwner: env.AGENTWEAVER_MAX_RUNS_PER_OWNER,
  maxQueued: env.AGENTWEAVER_MAX_QUEUED,
  maxQueuedPerOwner: env.AGENTWEAVER_MAX_QUEUED_PER_OWNER,
  maxLaunches: maxLaunches(env),
  queueTimeoutMs: seconds(env.AGENTWEAVER_QUEUE_TIMEOUT_SECONDS),
  maxSuspendedPerOwner: env.AGENTWEAVER_MAX_SUSPENDED_PER_OWNER,
  maxStoredBytesPerOwner: env.AGENTWEAVER_MAX_STORED_BYTES_PER_OWNER,
  approvalTtlMs: seconds(env.AGENTWEAVER_APPROVAL_TTL_SECONDS),
  suspendAfterMs: suspendAfterMs(env),
  checkpointEveryMs: seconds(env.AGENTWEAVER_CHECKPOINT_EVERY_SECONDS),
  suspendedRetentionMs: seconds(env.AGENTWEAVER_SUSPENDED_RETENTION_SECONDS),
  idleTimeoutMs: seconds(env.AGENTWEAVER_IDLE_TIMEOUT_SECONDS),
  stallTimeoutMs: seconds(env.AGENTWEAVER_STALL_TIMEOUT_SECONDS),
  runTimeoutMs: seconds(env.AGENTWEAVER_RUN_TIMEOUT_SECONDS),
  uploadTimeoutMs: UPLOAD_TIMEOUT_MS,
})

/** The start of a local sandbox is work of the processors of this machine. Pods start elsewhere. */
const maxLaunches = (env: ApiEnv) =>
  env.AGENTWEAVER_MAX_LAUNCHES ??
  (env.AGENTWEAVER_SANDBOXES === 'local' ? availableParallelism() : env.AGENTWEAVER_MAX_RUNS)

/** Undefined if runs that wait keep their sandboxes. Runs of a service for one command end with it. */
const suspendAfterMs = (env: ApiEnv) =>
  env.AGENTWEAVER_RELEASE_POD_ON_SUSPEND && !env.AGENTWEAVER_LIFELINE
    ? seconds(env.AGENTWEAVER_SUSPEND_AFTER_SECONDS)
    : undefined

/** Throws if a pod would silently use a default that is meant for a laptop. */
function refuseLaptopDefaults(source: EnvSource): void {
  const missing = missingInPod(source).map(({ key, message }) => `  ${key}: ${message}`)
  if (missing.length === 0) return
  throw new SandboxError('invalid_config', ['The configuration has problems:', ...missing].join('\n'))
}

const pathIn = (folder: string, path: string | undefined) => path && resolve(folder, path)

/** Git ignores relative paths here. */
const absolute = (path: string | undefined) => (path?.startsWith('/') ? path : undefined)

function readKeysPlace(env: ApiEnv, { cwd, stateDir }: { cwd: string; stateDir: string }) {
  if (env.AGENTWEAVER_KEY_VAULT) return { kind: 'vault', url: env.AGENTWEAVER_KEY_VAULT } as const
  if (env.AGENTWEAVER_KEYS_DIR)
    return { kind: 'folder', directory: resolve(cwd, env.AGENTWEAVER_KEYS_DIR) } as const
  return { kind: 'own', directory: resolve(stateDir, 'keys') } as const
}

/** Settings that need the identity. */
const AZURE_USES = ['AGENTWEAVER_KEY_VAULT', 'AGENTWEAVER_USER_VAULT_URL'] as const

function readIdentity(env: ApiEnv): WorkloadIdentity | undefined {
  // A shell may have these variables for another purpose, so they are read only if Azure is used.
  const isWanted =
    AZURE_USES.some((key) => env[key] !== undefined) || env.AGENTWEAVER_DATABASE_AUTH === 'entra'
  return isWanted ? workloadIdentityOf(env) : undefined
}

/** Value of AGENTWEAVER_RUNTIME_CLASS for pods without a runtime class. */
const NO_RUNTIME_CLASS = 'none'

function readSandboxes(env: ApiEnv, cwd: string) {
  if (env.AGENTWEAVER_SANDBOXES === 'local') {
    return { kind: 'local', warm: env.AGENTWEAVER_LOCAL_WARM } as const
  }
  const slug = env.AGENTWEAVER_PREVIEW_SLUG
  const runtimeClass = env.AGENTWEAVER_RUNTIME_CLASS ?? ''
  return {
    kind: 'kubernetes',
    deploymentId: env.AGENTWEAVER_DEPLOYMENT_ID ?? '',
    slice: slug === undefined ? ({ kind: 'base' } as const) : ({ kind: 'preview', slug } as const),
    runtimeClass: runtimeClass === NO_RUNTIME_CLASS ? undefined : runtimeClass,
    kubeconfig: env.AGENTWEAVER_KUBECONFIG && resolve(cwd, env.AGENTWEAVER_KUBECONFIG),
  } as const
}
