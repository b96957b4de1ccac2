import * as z from 'zod'
import { AZURE_IDENTITY_ENV, AZURE_KEYS, hasAzureIdentity } from './azure-identity-env.ts'
import { BackendName } from './backends.ts'
import { CredentialId, OF_EACH_OWNER } from './egress.ts'
import { UPSTREAM_PROXY_KEY, UpstreamProxyUrl } from './egress-proxy-env.ts'
import { MODEL_ENV } from './model-env.ts'
import { PreviewSlug } from './names.ts'
import { AbsolutePath } from './paths.ts'
import { API_PORT } from './ports.ts'
import { SIGN_IN_ENV, signInContradictions } from './sign-in-env.ts'

const absolutePaths = (text: string, context: z.RefinementCtx) => {
  const paths = text.split(':').filter((path) => path !== '')
  if (paths.every((path) => AbsolutePath.safeParse(path).success)) return paths
  context.addIssue({
    code: 'custom',
    message: 'must be absolute paths without ".." and control characters, separated by ":"',
  })
  return z.NEVER
}
/** A `Host` header value, in the one spelling that browsers and HTTP libraries send. */
const HOST_VALUE = /^(?:[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?|\[[0-9a-f:.]{2,45}\])(?::[1-9]\d{0,4})?$/
const hostValues = (text: string, context: z.RefinementCtx) => {
  const values = text.split(',').map((value) => value.trim().toLowerCase())
  if (values.every((value) => HOST_VALUE.test(value))) return values
  context.addIssue({ code: 'custom', message: 'must be host names with an optional port, separated by ","' })
  return z.NEVER
}
const count = (preset: number) => z.coerce.number().int().positive().default(preset)

/** Default of AGENTWEAVER_MAX_STREAMS. */
export const MAX_STREAMS = 1000

/** A Kubernetes label value; it marks this deployment's claims. */
const LabelValue = z.string().regex(/^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/)

/** Keys for sandboxes on Kubernetes only, and keys for local sandboxes only. */
const CLUSTER_KEYS = [
  'AGENTWEAVER_DEPLOYMENT_ID',
  'AGENTWEAVER_RUNTIME_CLASS',
  'AGENTWEAVER_PREVIEW_SLUG',
  'AGENTWEAVER_KUBECONFIG',
  'AGENTWEAVER_USER_VAULT',
  'AGENTWEAVER_USER_VAULT_URL',
  'AGENTWEAVER_EGRESS_CONTROL_PORT',
  'AGENTWEAVER_EGRESS_PROXY_ADDRESS',
  'AGENTWEAVER_FOUNDRY_URL',
  'AGENTWEAVER_NETWORK_ENCRYPTED',
] as const
const LOCAL_KEYS = ['AGENTWEAVER_WORKSPACE_ROOTS', 'AGENTWEAVER_TOOL_ROOTS'] as const
const REQUIRED_CLUSTER_KEYS = CLUSTER_KEYS.slice(0, 2)
const httpsUrl = z.url({ protocol: /^https$/ })

/** Environment of the API. An unknown `AGENTWEAVER_*` key or a malformed value stops the service. */
const AnyApiEnv = z.strictObject({
  AGENTWEAVER_HOST: z.string().min(1).default('127.0.0.1'),
  /** 0 picks a free port. */
  AGENTWEAVER_PORT: z.coerce.number().int().min(0).max(65_535).default(API_PORT),
  /**
   * More `Host` values to accept in addition to the service's own addresses, separated by `,`, such as
   * `api.example.com` or `api.internal:8080`. The service rejects every other value, which prevents DNS rebinding.
   */
  AGENTWEAVER_ALLOWED_HOSTS: z.string().transform(hostValues).optional(),
  /** Folder of the embedded store, the keys and the first API key; the default is `$XDG_STATE_HOME/agentweaver`. */
  AGENTWEAVER_STATE_DIR: z.string().min(1).optional(),
  /** Folders that may contain workspaces, separated by `:`. The default is the user's home folder. */
  AGENTWEAVER_WORKSPACE_ROOTS: z.string().transform(absolutePaths).optional(),
  /** How commands are isolated: `auto` uses the strongest backend that passes its probe; a name requires that backend. */
  AGENTWEAVER_ISOLATION: z
    .union([z.literal('auto'), BackendName.exclude(['kubernetes-sandbox-claim'])])
    .default('auto'),
  /** Allows commands without isolation if no backend works. Every run reports it in an event. */
  AGENTWEAVER_DIRECT: z.stringbool().default(false),
  /** Toolchain folders outside the system folders that commands may read, separated by `:`. */
  AGENTWEAVER_TOOL_ROOTS: z.string().transform(absolutePaths).optional(),
  /** YAML file with the operator's ceiling: limits that no caller and no repository can widen. */
  AGENTWEAVER_CEILING_FILE: z.string().min(1).optional(),
  /**
   * YAML file with the destinations that commands with network access may reach, in the syntax of
   * `policies/agent/egress.yaml`. It replaces the built-in list.
   */
  AGENTWEAVER_EGRESS_FILE: z.string().min(1).optional(),
  /**
   * Port for the replicas of the egress proxy in a cluster. Without it, this service uses no egress proxy, and network
   * policies alone decide what sandboxes reach.
   */
  AGENTWEAVER_EGRESS_CONTROL_PORT: z.coerce.number().int().min(1).max(65_535).optional(),
  /**
   * Address of the egress proxy's Service in a cluster. With it, agents of the kinds `openaiCompatible` and `foundry` call their
   * model through the proxy, and no sandbox gets the key or the token.
   */
  AGENTWEAVER_EGRESS_PROXY_ADDRESS: z.union([z.ipv4(), z.ipv6()]).optional(),
  /**
   * YAML file with the credentials that the egress proxy inserts into requests. It names files with values, and contains
   * none.
   */
  AGENTWEAVER_CREDENTIALS_FILE: z.string().min(1).optional(),
  /**
   * PEM file with root certificates, such as the roots of a company, which the egress proxy and the commands with network
   * access trust in addition to the public ones.
   */
  AGENTWEAVER_EGRESS_ROOTS_FILE: z.string().min(1).optional(),
  [UPSTREAM_PROXY_KEY]: UpstreamProxyUrl.optional(),
  /**
   * Whether the network plugin of the cluster encrypts what pods on different nodes send each other. Requests of agents to their
   * models are plain HTTP up to the egress proxy.
   */
  AGENTWEAVER_NETWORK_ENCRYPTED: z.stringbool().optional(),
  ...SIGN_IN_ENV,
  ...MODEL_ENV,
  /** Folder with the deployment's keys, shared by all processes. Without it, each process creates its own keys. */
  AGENTWEAVER_KEYS_DIR: z.string().min(1).optional(),
  /** Azure Key Vault with those keys, used instead of the folder, such as `https://name.vault.azure.net`. */
  AGENTWEAVER_KEY_VAULT: httpsUrl.optional(),
  /** Separate port for `/metrics`. If set, the API port no longer serves `/metrics`. */
  AGENTWEAVER_METRICS_PORT: z.coerce.number().int().min(1).max(65_535).optional(),
  /** How the service logs in to the database: with `DATABASE_URL` alone, or with a token of its Azure identity. */
  AGENTWEAVER_DATABASE_AUTH: z.enum(['url', 'entra']).default('url'),
  /** Where sandboxes run: as processes on this machine, or as pods in a cluster. There is no fallback between the two. */
  AGENTWEAVER_SANDBOXES: z.enum(['local', 'kubernetes']).default('local'),
  /** Label value of this deployment's claims. The service does not touch claims with another value. */
  AGENTWEAVER_DEPLOYMENT_ID: LabelValue.optional(),
  /** The runtime class that every sandbox must have, or `none` to use plain containers. */
  AGENTWEAVER_RUNTIME_CLASS: z
    .string()
    .regex(/^[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?$/)
    .optional(),
  /** The preview slice of this service. Without it, the service belongs to the base slice. */
  AGENTWEAVER_PREVIEW_SLUG: PreviewSlug.optional(),
  /** Kubeconfig to reach the cluster. Without it, the service uses its pod's service account. */
  AGENTWEAVER_KUBECONFIG: z.string().min(1).optional(),
  /** The GitHub tokens of owners are in the user-token vault. The egress proxy inserts them, or AgentHost reads them there. */
  AGENTWEAVER_USER_VAULT: z.stringbool().optional(),
  /** The vault into which the service writes the credentials that owners set. Without it, they are encrypted in the store. */
  AGENTWEAVER_USER_VAULT_URL: httpsUrl.optional(),
  /** Number of sandboxes that the local provider keeps ready. */
  AGENTWEAVER_LOCAL_WARM: z.coerce.number().int().min(0).max(16).default(1),
  /** Runs with a sandbox: in the deployment, and of one owner. Other runs wait in the queue. */
  AGENTWEAVER_MAX_RUNS: count(16),
  AGENTWEAVER_MAX_RUNS_PER_OWNER: count(8),
  /** Runs that wait in the queue: in the deployment, and of one owner. */
  AGENTWEAVER_MAX_QUEUED: count(10_000),
  AGENTWEAVER_MAX_QUEUED_PER_OWNER: count(1_000),
  /** A run that waits longer for its first sandbox fails. Default: one day. */
  AGENTWEAVER_QUEUE_TIMEOUT_SECONDS: count(86_400),
  /** Sandboxes that one process starts at the same time. Default: one per processor on this machine; in a cluster, no limit. */
  AGENTWEAVER_MAX_LAUNCHES: z.coerce.number().int().min(1).optional(),
  /** Runs of one owner that wait without a sandbox. An owner with more cannot start a run. */
  AGENTWEAVER_MAX_SUSPENDED_PER_OWNER: count(100),
  /** Bytes of checkpoints, uploads and results that one owner may store. Default: 32 GiB. */
  AGENTWEAVER_MAX_STORED_BYTES_PER_OWNER: count(34_359_738_368),
  AGENTWEAVER_RATE_LIMIT_PER_MINUTE: count(1200),
  /** Limits of open event streams: of all keys of one owner, and in the whole process. */
  AGENTWEAVER_MAX_STREAMS_PER_KEY: count(100),
  AGENTWEAVER_MAX_STREAMS: count(MAX_STREAMS),
  /** Default: seven days, so that a run can wait for a person over a long weekend. */
  AGENTWEAVER_APPROVAL_TTL_SECONDS: count(604_800),
  /** A run that waits this long gives its sandbox back and continues later in another one. */
  AGENTWEAVER_SUSPEND_AFTER_SECONDS: count(60),
  /** `false`: a run that waits keeps its sandbox until a person suspends it. */
  AGENTWEAVER_RELEASE_POD_ON_SUSPEND: z.stringbool().default(true),
  /** A turn is saved this often while it works, between two calls. A lost sandbox loses the work since the last checkpoint. */
  AGENTWEAVER_CHECKPOINT_EVERY_SECONDS: count(120),
  /** A run that is suspended for this long ends, and the checkpoint of an ended run is deleted. Default: 30 days. */
  AGENTWEAVER_SUSPENDED_RETENTION_SECONDS: count(2_592_000),
  AGENTWEAVER_IDLE_TIMEOUT_SECONDS: count(900),
  AGENTWEAVER_STALL_TIMEOUT_SECONDS: count(300),
  AGENTWEAVER_RUN_TIMEOUT_SECONDS: count(14_400),
  AGENTWEAVER_LOG_LEVEL: z.enum(['debug', 'info', 'warn', 'error', 'silent']).default('info'),
  /** Output when the service listens: `text` for people, `json` for one line `{url, socket, apiKeyFile, pid}`. */
  AGENTWEAVER_READY_FORMAT: z.enum(['text', 'json']).default('text'),
  /** Exit when stdin closes. The command that started the service holds the other end. */
  AGENTWEAVER_LIFELINE: z.stringbool().default(false),
  /** Stop when this parent process has ended. `agentweaver serve` sets it to its own id. */
  AGENTWEAVER_PARENT_PID: z.coerce.number().int().positive().optional(),
  /** PostgreSQL. Without it, the service uses the embedded SQLite store. */
  DATABASE_URL: z.url({ protocol: /^postgres(?:ql)?$/ }).optional(),
  ...AZURE_IDENTITY_ENV,
  /** Endpoint and key of the model server for agents of kind `openaiCompatible`. */
  OPENAI_BASE_URL: z
    .url({ protocol: /^https?$/ })
    .regex(/^[^@?#]+$/, 'must have no user, query or fragment')
    .optional(),
  OPENAI_API_KEY: z
    .string()
    .regex(/^[\x21-\x7e]{1,4096}$/, 'must be visible ASCII characters')
    .optional(),
  /** Id of the credential that is the key of the model server, instead of OPENAI_API_KEY. `openai-compatible`: the owner's. */
  AGENTWEAVER_MODEL_CREDENTIAL: CredentialId.optional(),
  /** Tools and parameters with which the model server may do something by itself, such as `web_search`. */
  AGENTWEAVER_MODEL_SERVER_TOOLS: z
    .string()
    .regex(/^[a-z0-9_]{1,64}(,[a-z0-9_]{1,64}){0,31}$/, 'must be names with commas between them')
    .transform((text) => text.split(','))
    .optional(),
  /** GitHub token for agents of kind `copilot`. */
  COPILOT_GITHUB_TOKEN: z.string().min(1).optional(),
})

/** The Entra token is sent as the password, so the URL must have none and TLS must verify the server's name. */
function takesToken(database: string | undefined): boolean {
  if (database === undefined) return false
  const { password, searchParams } = new URL(database)
  return password === '' && searchParams.get('sslmode') === 'verify-full'
}

type AnyEnv = z.infer<typeof AnyApiEnv>

function contradictions(env: AnyEnv): (readonly [string, string])[] {
  const { AGENTWEAVER_KEY_VAULT: vault, AGENTWEAVER_KEYS_DIR: folder } = env
  const isCluster = env.AGENTWEAVER_SANDBOXES === 'kubernetes'
  const hasIdentity = hasAzureIdentity(env)
  const isEntra = env.AGENTWEAVER_DATABASE_AUTH === 'entra'
  const hasOwnKeys = vault === undefined && folder === undefined
  const hasProxy = !isCluster || env.AGENTWEAVER_EGRESS_CONTROL_PORT !== undefined
  const rules: (readonly [boolean, string, string])[] = [
    [
      vault !== undefined && folder !== undefined,
      'AGENTWEAVER_KEYS_DIR',
      'cannot be combined with AGENTWEAVER_KEY_VAULT',
    ],
    [
      env.AGENTWEAVER_EGRESS_FILE !== undefined && !hasProxy,
      'AGENTWEAVER_EGRESS_FILE',
      'needs AGENTWEAVER_EGRESS_CONTROL_PORT with AGENTWEAVER_SANDBOXES=kubernetes, because only an egress proxy enforces it',
    ],
    ...modelContradictions(env),
    ...signInContradictions(env),
    [vault !== undefined && !hasIdentity, 'AGENTWEAVER_KEY_VAULT', `needs ${AZURE_KEYS.join(', ')}`],
    ...vaultContradictions(env, hasIdentity),
    [isEntra && !hasIdentity, 'AGENTWEAVER_DATABASE_AUTH', `entra needs ${AZURE_KEYS.join(', ')}`],
    [
      isEntra && !takesToken(env.DATABASE_URL),
      'DATABASE_URL',
      'must have sslmode=verify-full and no password with AGENTWEAVER_DATABASE_AUTH=entra, because the token is sent as the password',
    ],
    [
      isCluster && env.DATABASE_URL !== undefined && hasOwnKeys,
      'AGENTWEAVER_KEYS_DIR',
      'or AGENTWEAVER_KEY_VAULT is required with DATABASE_URL on Kubernetes, because all replicas must share their keys',
    ],
  ]
  return rules.flatMap(([isWrong, key, message]) => (isWrong ? [[key, message] as const] : []))
}

function vaultContradictions(env: AnyEnv, hasIdentity: boolean): (readonly [boolean, string, string])[] {
  const key = 'AGENTWEAVER_USER_VAULT_URL'
  const isSet = env[key] !== undefined
  return [
    [isSet && !env.AGENTWEAVER_USER_VAULT, key, 'needs AGENTWEAVER_USER_VAULT=true'],
    [isSet && !hasIdentity, key, `needs ${AZURE_KEYS.join(', ')}`],
  ]
}
const hasModelProxy = (env: AnyEnv) =>
  env.AGENTWEAVER_EGRESS_CONTROL_PORT !== undefined && env.AGENTWEAVER_EGRESS_PROXY_ADDRESS !== undefined

function modelContradictions(env: AnyEnv): (readonly [boolean, string, string])[] {
  const key = 'AGENTWEAVER_MODEL_CREDENTIAL'
  const isSet = env[key] !== undefined
  const isCluster = env.AGENTWEAVER_SANDBOXES === 'kubernetes'
  return [
    [isSet && env.OPENAI_API_KEY !== undefined, key, 'cannot be combined with OPENAI_API_KEY'],
    [
      isSet && env[key] !== OF_EACH_OWNER.model && env.AGENTWEAVER_CREDENTIALS_FILE === undefined,
      key,
      'needs AGENTWEAVER_CREDENTIALS_FILE',
    ],
    [
      isSet && isCluster && env.AGENTWEAVER_EGRESS_PROXY_ADDRESS === undefined,
      key,
      'needs AGENTWEAVER_EGRESS_PROXY_ADDRESS, because only an egress proxy inserts it',
    ],
    [
      env.AGENTWEAVER_FOUNDRY_URL !== undefined && !hasModelProxy(env),
      'AGENTWEAVER_FOUNDRY_URL',
      'needs AGENTWEAVER_EGRESS_CONTROL_PORT and AGENTWEAVER_EGRESS_PROXY_ADDRESS, because only the egress proxy has the Azure identity for the model',
    ],
  ]
}

/** Rejects settings that would have no effect and reports required ones that are missing. */
export const ApiEnv = AnyApiEnv.superRefine((env, context) => {
  const isCluster = env.AGENTWEAVER_SANDBOXES === 'kubernetes'
  const problem = (key: string, message: string) => context.addIssue({ code: 'custom', path: [key], message })
  for (const key of isCluster ? LOCAL_KEYS : CLUSTER_KEYS) {
    if (env[key] !== undefined)
      problem(key, `cannot be used with AGENTWEAVER_SANDBOXES=${env.AGENTWEAVER_SANDBOXES}`)
  }
  for (const key of isCluster ? REQUIRED_CLUSTER_KEYS : []) {
    if (env[key] === undefined) problem(key, 'is required with AGENTWEAVER_SANDBOXES=kubernetes')
  }
})
  .superRefine((env, context) => {
    for (const [key, message] of contradictions(env))
      context.addIssue({ code: 'custom', path: [key], message })
  })
  .refine((env) => !(env.AGENTWEAVER_USER_VAULT && env.COPILOT_GITHUB_TOKEN), {
    path: ['COPILOT_GITHUB_TOKEN'],
    message:
      'cannot be combined with AGENTWEAVER_USER_VAULT: it is one token for all owners, the vault has one for each',
  })
export type ApiEnv = z.infer<typeof ApiEnv>
export const API_ENV_PREFIX = 'AGENTWEAVER_'

/** Keys of the command line that have the API's prefix. They may be set in the shell that starts the service. */
export const CLIENT_ENV_KEYS = ['AGENTWEAVER_URL', 'AGENTWEAVER_API_KEY'] as const

/** File in the state folder that holds the first API key. */
export const API_KEY_FILE = 'api-key'
