import * as z from 'zod'
import { BackendName } from './backends.ts'
import { PreviewSlug } from './names.ts'
import { AbsolutePath } from './paths.ts'
import { API_PORT } from './ports.ts'

const absolutePaths = (text: string, context: z.RefinementCtx) => {
  const paths = text.split(':').filter((path) => path !== '')
  if (paths.every((path) => AbsolutePath.safeParse(path).success)) return paths
  context.addIssue({
    code: 'custom',
    message: 'must be absolute paths without ".." and control characters, separated by ":"',
  })
  return z.NEVER
}
/** A value of the header `Host`, in the one spelling that browsers and HTTP libraries send. */
const HOST_VALUE = /^(?:[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?|\[[0-9a-f:.]{2,45}\])(?::[1-9]\d{0,4})?$/
const hostValues = (text: string, context: z.RefinementCtx) => {
  const values = text.split(',').map((value) => value.trim().toLowerCase())
  if (values.every((value) => HOST_VALUE.test(value))) return values
  context.addIssue({ code: 'custom', message: 'must be host names with an optional port, separated by ","' })
  return z.NEVER
}
const count = (preset: number) => z.coerce.number().int().positive().default(preset)

/** A value of a label: it marks our claims. */
const LabelValue = z.string().regex(/^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/)

/** Keys that only a service with sandboxes on Kubernetes reads, and those that only a local one does. */
const CLUSTER_KEYS = [
  'AGENTWEAVER_DEPLOYMENT_ID',
  'AGENTWEAVER_RUNTIME_CLASS',
  'AGENTWEAVER_PREVIEW_SLUG',
  'AGENTWEAVER_KUBECONFIG',
  'AGENTWEAVER_USER_VAULT',
] as const
const LOCAL_KEYS = ['AGENTWEAVER_WORKSPACE_ROOTS', 'AGENTWEAVER_TOOL_ROOTS'] as const
const REQUIRED_CLUSTER_KEYS = CLUSTER_KEYS.slice(0, 2)
/** How the service shows Azure who it is: the names that Azure's own SDKs use, all or none. */
export const AZURE_KEYS = [
  'AZURE_AUTHORITY_HOST',
  'AZURE_CLIENT_ID',
  'AZURE_FEDERATED_TOKEN_FILE',
  'AZURE_TENANT_ID',
] as const
const httpsUrl = z.url({ protocol: /^https$/ })

/** Environment of the API. An unknown `AGENTWEAVER_*` key or a malformed value stops the service. */
const AnyApiEnv = z.strictObject({
  AGENTWEAVER_HOST: z.string().min(1).default('127.0.0.1'),
  /** 0 takes any free port. */
  AGENTWEAVER_PORT: z.coerce.number().int().min(0).max(65_535).default(API_PORT),
  /**
   * Values of the header `Host` that the service accepts beside those of its own addresses, such as `api.example.com`
   * or `api.internal:8080`, separated by `,`. Any other name is refused, so that no page can reach the service by a name
   * that it makes resolve to the service's address (DNS rebinding).
   */
  AGENTWEAVER_ALLOWED_HOSTS: z.string().transform(hostValues).optional(),
  /** Folder of the embedded store, the keys and the first API key; the default is `$XDG_STATE_HOME/agentweaver`. */
  AGENTWEAVER_STATE_DIR: z.string().min(1).optional(),
  /** Folders under which a run may name a workspace, separated by `:`; the default is the user's home. */
  AGENTWEAVER_WORKSPACE_ROOTS: z.string().transform(absolutePaths).optional(),
  /** Isolation of commands: the best that proves itself, or exactly the named one. */
  AGENTWEAVER_ISOLATION: z
    .union([z.literal('auto'), BackendName.exclude(['kubernetes-sandbox-claim'])])
    .default('auto'),
  /** Allows commands with no isolation at all, where nothing isolates. Announced in every run. */
  AGENTWEAVER_DIRECT: z.stringbool().default(false),
  /** Toolchains outside the system folders that commands may read, separated by `:`. */
  AGENTWEAVER_TOOL_ROOTS: z.string().transform(absolutePaths).optional(),
  /** YAML file with the operator's ceiling: settings that no caller and no repository can widen. */
  AGENTWEAVER_CEILING_FILE: z.string().min(1).optional(),
  /** Folder with the keys of the deployment, which several processes share; without it each makes its own. */
  AGENTWEAVER_KEYS_DIR: z.string().min(1).optional(),
  /** The vault with those keys in place of the folder, such as `https://name.vault.azure.net`. */
  AGENTWEAVER_KEY_VAULT: httpsUrl.optional(),
  /** Port of `/metrics` alone, which the port of the API serves then no longer. */
  AGENTWEAVER_METRICS_PORT: z.coerce.number().int().min(1).max(65_535).optional(),
  /** How the database knows the service: as `DATABASE_URL` says, or by a token of its Azure identity. */
  AGENTWEAVER_DATABASE_AUTH: z.enum(['url', 'entra']).default('url'),
  /** Where sandboxes are: processes of this machine, or pods of a cluster. Neither ever stands in for the other. */
  AGENTWEAVER_SANDBOXES: z.enum(['local', 'kubernetes']).default('local'),
  /** Marks the claims of this deployment, which touches no others. */
  AGENTWEAVER_DEPLOYMENT_ID: LabelValue.optional(),
  /** The runtime class that every sandbox must run under; `none` where nothing isolates harder than containers. */
  AGENTWEAVER_RUNTIME_CLASS: z
    .string()
    .regex(/^[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?$/)
    .optional(),
  /** The preview slice that this service belongs to; without it the base slice. */
  AGENTWEAVER_PREVIEW_SLUG: PreviewSlug.optional(),
  /** Reaches the cluster as this kubeconfig says; without it as the service's own pod. */
  AGENTWEAVER_KUBECONFIG: z.string().min(1).optional(),
  /** Agents of kind `copilot` use their owner's token, which AgentHost reads from the vault of users' tokens. */
  AGENTWEAVER_USER_VAULT: z.stringbool().optional(),
  /** Sandboxes kept ready by the local provider. */
  AGENTWEAVER_LOCAL_WARM: z.coerce.number().int().min(0).max(16).default(1),
  AGENTWEAVER_MAX_RUNS: count(16),
  AGENTWEAVER_MAX_RUNS_PER_OWNER: count(8),
  AGENTWEAVER_RATE_LIMIT_PER_MINUTE: count(1200),
  /** Event streams that may be open at a time, of one API key and of one process in all. */
  AGENTWEAVER_MAX_STREAMS_PER_KEY: count(100),
  AGENTWEAVER_MAX_STREAMS: count(1000),
  AGENTWEAVER_APPROVAL_TTL_SECONDS: count(900),
  AGENTWEAVER_IDLE_TIMEOUT_SECONDS: count(900),
  AGENTWEAVER_STALL_TIMEOUT_SECONDS: count(300),
  AGENTWEAVER_RUN_TIMEOUT_SECONDS: count(14_400),
  AGENTWEAVER_LOG_LEVEL: z.enum(['debug', 'info', 'warn', 'error', 'silent']).default('info'),
  /** `text` for people, `json` prints one line `{url, socket, apiKeyFile, pid}` when the service listens. */
  AGENTWEAVER_READY_FORMAT: z.enum(['text', 'json']).default('text'),
  /** Exit when standard input ends: whoever started the service for one command holds the other end. */
  AGENTWEAVER_LIFELINE: z.stringbool().default(false),
  /** PostgreSQL; without it the store is the embedded one. */
  DATABASE_URL: z.url({ protocol: /^postgres(?:ql)?$/ }).optional(),
  AZURE_AUTHORITY_HOST: z.string().optional(),
  AZURE_CLIENT_ID: z.string().optional(),
  AZURE_FEDERATED_TOKEN_FILE: z.string().optional(),
  AZURE_TENANT_ID: z.string().optional(),
  /** Endpoint and key of an OpenAI-compatible model server for agents of kind `openaiCompatible`. */
  OPENAI_BASE_URL: z.url().optional(),
  OPENAI_API_KEY: z.string().min(1).optional(),
  /** Token for agents of kind `copilot`. */
  COPILOT_GITHUB_TOKEN: z.string().min(1).optional(),
})

const isHttps = (text: string | undefined) => httpsUrl.safeParse(text).success

/** A token goes to the database alone: over TLS, to a server that shows who it is. */
function takesToken(database: string | undefined): boolean {
  if (database === undefined) return false
  const { password, searchParams } = new URL(database)
  return password === '' && searchParams.get('sslmode') === 'verify-full'
}

type AnyEnv = z.infer<typeof AnyApiEnv>

function contradictions(env: AnyEnv): (readonly [string, string])[] {
  const { AGENTWEAVER_KEY_VAULT: vault, AGENTWEAVER_KEYS_DIR: folder } = env
  const isCluster = env.AGENTWEAVER_SANDBOXES === 'kubernetes'
  const hasIdentity = AZURE_KEYS.every((key) => env[key] !== undefined) && isHttps(env.AZURE_AUTHORITY_HOST)
  const isEntra = env.AGENTWEAVER_DATABASE_AUTH === 'entra'
  const hasOwnKeys = vault === undefined && folder === undefined
  const rules: (readonly [boolean, string, string])[] = [
    [
      vault !== undefined && folder !== undefined,
      'AGENTWEAVER_KEYS_DIR',
      'has no meaning with AGENTWEAVER_KEY_VAULT',
    ],
    [vault !== undefined && !hasIdentity, 'AGENTWEAVER_KEY_VAULT', `needs ${AZURE_KEYS.join(', ')}`],
    [isEntra && !hasIdentity, 'AGENTWEAVER_DATABASE_AUTH', `entra needs ${AZURE_KEYS.join(', ')}`],
    [
      isEntra && !takesToken(env.DATABASE_URL),
      'DATABASE_URL',
      'must have sslmode=verify-full and no password with AGENTWEAVER_DATABASE_AUTH=entra: the token is the password',
    ],
    [
      isCluster && env.DATABASE_URL !== undefined && hasOwnKeys,
      'AGENTWEAVER_KEYS_DIR',
      'or AGENTWEAVER_KEY_VAULT must be given where several processes serve one DATABASE_URL: they share their keys',
    ],
  ]
  return rules.flatMap(([isWrong, key, message]) => (isWrong ? [[key, message] as const] : []))
}

/** A setting that nothing would read is a mistake, as one is that must be decided and is not. */
export const ApiEnv = AnyApiEnv.superRefine((env, context) => {
  const isCluster = env.AGENTWEAVER_SANDBOXES === 'kubernetes'
  const problem = (key: string, message: string) => context.addIssue({ code: 'custom', path: [key], message })
  for (const key of isCluster ? LOCAL_KEYS : CLUSTER_KEYS) {
    if (env[key] !== undefined)
      problem(key, `has no meaning with AGENTWEAVER_SANDBOXES=${env.AGENTWEAVER_SANDBOXES}`)
  }
  for (const key of isCluster ? REQUIRED_CLUSTER_KEYS : []) {
    if (env[key] === undefined) problem(key, 'must be given with AGENTWEAVER_SANDBOXES=kubernetes')
  }
})
  .superRefine((env, context) => {
    for (const [key, message] of contradictions(env))
      context.addIssue({ code: 'custom', path: [key], message })
  })
  .refine((env) => !(env.AGENTWEAVER_USER_VAULT && env.COPILOT_GITHUB_TOKEN), {
    path: ['COPILOT_GITHUB_TOKEN'],
    message: 'is one token for all; with AGENTWEAVER_USER_VAULT each owner has one',
  })
export type ApiEnv = z.infer<typeof ApiEnv>
export const API_ENV_PREFIX = 'AGENTWEAVER_'

/** Keys with the API's prefix that belong to others, who may share its shell. */
export const CLIENT_ENV_KEYS = ['AGENTWEAVER_URL', 'AGENTWEAVER_API_KEY'] as const

/** Name of the first API key's file in the state folder. */
export const API_KEY_FILE = 'api-key'
