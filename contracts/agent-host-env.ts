import { z } from 'zod'
import { BackendName } from './exec.ts'

const Ms = (text: number) => z.coerce.number().int().positive().default(text)

/** Environment of AgentHost. An unknown `AGENT_HOST_*` key or a malformed value stops the process. */
export const AgentHostEnv = z
  .strictObject({
    /** Whom a ticket must name: the pod's UID, or the id that the local provider gave. */
    AGENT_HOST_INSTANCE_ID: z.string().regex(/^[A-Za-z0-9-]{8,64}$/),
    /** A Unix socket in a folder of mode 0700 (laptop). */
    AGENT_HOST_SOCKET: z.string().startsWith('/').max(100).optional(),
    /** A TCP port on `::` (pod). */
    AGENT_HOST_PORT: z.coerce.number().int().min(1).max(65_535).optional(),
    AGENT_HOST_JWKS_FILE: z.string().startsWith('/'),
    /** Backend of the child runner, chosen and proven by the provider. */
    AGENT_HOST_RUNNER_BACKEND: BackendName,
    /** JSON of the operator's tool roots, passed on to the child runner. */
    AGENT_HOST_RUNNER_TOOL_ROOTS: z.string().default('[]'),
    /** A private folder for the agent runtime; never the workspace. */
    AGENT_HOST_STATE_DIR: z.string().startsWith('/'),
    AGENT_HOST_DECISION_TIMEOUT_MS: Ms(30_000),
    AGENT_HOST_LOG_LEVEL: z.enum(['debug', 'info', 'warn', 'error']).default('info'),
    /** Exit when standard input ends: the local provider holds the other end. */
    AGENT_HOST_LIFELINE: z.stringbool().default(false),
  })
  .refine((env) => (env.AGENT_HOST_SOCKET === undefined) !== (env.AGENT_HOST_PORT === undefined), {
    message: 'exactly one of AGENT_HOST_SOCKET and AGENT_HOST_PORT',
    path: ['AGENT_HOST_SOCKET'],
  })
export type AgentHostEnv = z.infer<typeof AgentHostEnv>
export type AgentHostEnvInput = z.input<typeof AgentHostEnv>
export const AGENT_HOST_ENV_PREFIX = 'AGENT_HOST_'
