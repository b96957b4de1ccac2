import * as z from 'zod'
import { BackendName } from './backends.ts'

const isPod = (env: { AGENT_HOST_IDENTITY_TOKEN_FILE?: string | undefined }) =>
  env.AGENT_HOST_IDENTITY_TOKEN_FILE !== undefined

type Identity = Partial<
  Record<`AGENT_HOST_AZURE_${'CLIENT_ID' | 'TENANT_ID' | 'TOKEN_FILE'}`, string | undefined>
>
const hasIdentity = (env: Identity) =>
  env.AGENT_HOST_AZURE_CLIENT_ID !== undefined &&
  env.AGENT_HOST_AZURE_TENANT_ID !== undefined &&
  env.AGENT_HOST_AZURE_TOKEN_FILE !== undefined

/** An `https` URL without a path. */
const HttpsOrigin = z.string().regex(/^https:\/\/[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:\d{1,5})?$/)

const Ms = (text: number) => z.coerce.number().int().positive().default(text)

/** Environment of AgentHost. An unknown `AGENT_HOST_*` key or a malformed value stops the process. */
export const AgentHostEnv = z
  .strictObject({
    /** The audience that a ticket must have: the pod's UID, or the id that the local provider assigned. */
    AGENT_HOST_INSTANCE_ID: z.string().regex(/^[A-Za-z0-9-]{8,64}$/),
    /** A Unix socket in a folder of mode 0700 (laptop). */
    AGENT_HOST_SOCKET: z.string().startsWith('/').max(100).optional(),
    /** A TCP port on `::` (pod). */
    AGENT_HOST_PORT: z.coerce.number().int().min(1).max(65_535).optional(),
    AGENT_HOST_JWKS_FILE: z.string().startsWith('/'),
    /** The projected token that `GET /identity` returns (pod). */
    AGENT_HOST_IDENTITY_TOKEN_FILE: z.string().startsWith('/').optional(),
    /** Backend of the child runner, already probed by the provider (laptop). In a pod, runners connect on their own. */
    AGENT_HOST_RUNNER_BACKEND: BackendName.optional(),
    /** JSON of the operator's tool roots, passed on to the child runner. */
    AGENT_HOST_RUNNER_TOOL_ROOTS: z.string().default('[]'),
    /** JSON of the folders that the operator's ceiling allows commands to read, passed on to the child runner. */
    AGENT_HOST_RUNNER_HOST_ROOTS: z.string().default('[]'),
    /** Folder of the egress proxy's socket, passed on to the child runner (laptop). */
    AGENT_HOST_RUNNER_EGRESS_FOLDER: z.string().startsWith('/').optional(),
    /** A private folder for the agent runtime; never the workspace. */
    AGENT_HOST_STATE_DIR: z.string().startsWith('/'),
    AGENT_HOST_DECISION_TIMEOUT_MS: Ms(30_000),
    /** The vault with the users' tokens. AgentHost contacts no other vault. */
    AGENT_HOST_VAULT_URL: HttpsOrigin.optional(),
    /** The Azure identity of the pod's service account. */
    AGENT_HOST_AZURE_CLIENT_ID: z.guid().optional(),
    AGENT_HOST_AZURE_TENANT_ID: z.guid().optional(),
    AGENT_HOST_AZURE_AUTHORITY: HttpsOrigin.default('https://login.microsoftonline.com'),
    /** The projected token with the audience `api://AzureADTokenExchange`. */
    AGENT_HOST_AZURE_TOKEN_FILE: z.string().startsWith('/').optional(),
    AGENT_HOST_LOG_LEVEL: z.enum(['debug', 'info', 'warn', 'error']).default('info'),
    /** Exit when stdin closes. The local provider holds the other end, so AgentHost never outlives it. */
    AGENT_HOST_LIFELINE: z.stringbool().default(false),
  })
  .refine((env) => (env.AGENT_HOST_SOCKET === undefined) !== (env.AGENT_HOST_PORT === undefined), {
    message: 'exactly one of AGENT_HOST_SOCKET and AGENT_HOST_PORT',
    path: ['AGENT_HOST_SOCKET'],
  })
  .refine((env) => env.AGENT_HOST_VAULT_URL === undefined || hasIdentity(env), {
    message: 'a vault needs the client id, the tenant id and the token file too',
    path: ['AGENT_HOST_AZURE_CLIENT_ID'],
  })
  .refine((env) => env.AGENT_HOST_RUNNER_BACKEND !== undefined || env.AGENT_HOST_PORT !== undefined, {
    message: 'is required with AGENT_HOST_SOCKET; runners connect on their own only in a pod',
    path: ['AGENT_HOST_RUNNER_BACKEND'],
  })
  .refine((env) => (env.AGENT_HOST_RUNNER_BACKEND === undefined) === isPod(env), {
    message: 'is required exactly when AGENT_HOST_RUNNER_BACKEND is absent',
    path: ['AGENT_HOST_IDENTITY_TOKEN_FILE'],
  })
export type AgentHostEnv = z.infer<typeof AgentHostEnv>
export type AgentHostEnvInput = z.input<typeof AgentHostEnv>
export const AGENT_HOST_ENV_PREFIX = 'AGENT_HOST_'

/** Standard proxy and CA variables. AgentHost reads them unchanged. */
export const REACH_KEYS = ['HTTPS_PROXY', 'NO_PROXY', 'SSL_CERT_FILE', 'NODE_EXTRA_CA_CERTS'] as const
