import { z } from 'zod'
import { BackendName } from './exec.ts'
import { API_PORT } from './ports.ts'

const absolutePaths = (text: string, context: z.RefinementCtx) => {
  const paths = text.split(':').filter((path) => path !== '')
  if (paths.every((path) => path.startsWith('/'))) return paths
  context.addIssue({ code: 'custom', message: 'must be absolute paths separated by ":"' })
  return z.NEVER
}
const count = (preset: number) => z.coerce.number().int().positive().default(preset)

/** Environment of the API. An unknown `AGENTWEAVER_*` key or a malformed value stops the service. */
export const ApiEnv = z.strictObject({
  AGENTWEAVER_HOST: z.string().min(1).default('127.0.0.1'),
  /** 0 takes any free port. */
  AGENTWEAVER_PORT: z.coerce.number().int().min(0).max(65_535).default(API_PORT),
  /** Folder of the embedded store, the keys and the first API key. */
  AGENTWEAVER_STATE_DIR: z.string().min(1).default('.agentweaver'),
  /** Folders under which a run may name a workspace, separated by `:`; the default is the user's home. */
  AGENTWEAVER_WORKSPACE_ROOTS: z.string().transform(absolutePaths).optional(),
  /** Isolation of commands: the best that proves itself, or exactly the named one. */
  AGENTWEAVER_ISOLATION: z.union([z.literal('auto'), BackendName]).default('auto'),
  /** Allows commands with no isolation at all, where nothing isolates. Announced in every run. */
  AGENTWEAVER_DIRECT: z.stringbool().default(false),
  /** Toolchains outside the system folders that commands may read, separated by `:`. */
  AGENTWEAVER_TOOL_ROOTS: z.string().transform(absolutePaths).optional(),
  /** YAML file with the operator's ceiling: settings that no caller and no repository can widen. */
  AGENTWEAVER_CEILING_FILE: z.string().min(1).optional(),
  /** Sandboxes kept ready by the local provider. */
  AGENTWEAVER_LOCAL_WARM: z.coerce.number().int().min(0).max(16).default(1),
  AGENTWEAVER_MAX_RUNS: count(16),
  AGENTWEAVER_MAX_RUNS_PER_OWNER: count(8),
  AGENTWEAVER_RATE_LIMIT_PER_MINUTE: count(1200),
  AGENTWEAVER_APPROVAL_TTL_SECONDS: count(900),
  AGENTWEAVER_IDLE_TIMEOUT_SECONDS: count(900),
  AGENTWEAVER_STALL_TIMEOUT_SECONDS: count(300),
  AGENTWEAVER_RUN_TIMEOUT_SECONDS: count(14_400),
  AGENTWEAVER_LOG_LEVEL: z.enum(['debug', 'info', 'warn', 'error', 'silent']).default('info'),
  /** `text` for people, `json` prints one line `{url, apiKeyFile, pid}` when the service listens. */
  AGENTWEAVER_READY_FORMAT: z.enum(['text', 'json']).default('text'),
  /** Exit when standard input ends: whoever started the service for one command holds the other end. */
  AGENTWEAVER_LIFELINE: z.stringbool().default(false),
  /** PostgreSQL; without it the store is the embedded one. */
  DATABASE_URL: z.url({ protocol: /^postgres(?:ql)?$/ }).optional(),
  /** Endpoint and key of an OpenAI-compatible model server for agents of kind `openaiCompatible`. */
  OPENAI_BASE_URL: z.url().optional(),
  OPENAI_API_KEY: z.string().min(1).optional(),
  /** Token for agents of kind `copilot`. */
  COPILOT_GITHUB_TOKEN: z.string().min(1).optional(),
})
export type ApiEnv = z.infer<typeof ApiEnv>
export const API_ENV_PREFIX = 'AGENTWEAVER_'

/** Keys with the API's prefix that belong to others, who may share its shell. */
export const CLIENT_ENV_KEYS = ['AGENTWEAVER_URL', 'AGENTWEAVER_API_KEY'] as const

/** Name of the first API key's file in the state folder. */
export const API_KEY_FILE = 'api-key'
