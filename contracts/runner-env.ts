import * as z from 'zod'
import { BackendName } from './backends.ts'
import { AbsolutePath, HostRoot } from './paths.ts'

/** A JSON array of at most 64 items. The default is an empty array. */
const jsonArrayOf = <T extends z.ZodType>(item: T, what: string) =>
  z
    .string()
    .default('[]')
    .transform((text, context): z.output<T>[] => {
      try {
        return z.array(item).max(64).parse(JSON.parse(text))
      } catch {
        context.addIssue({ code: 'custom', message: `must be a JSON array of ${what}` })
        return z.NEVER
      }
    })

/** Environment of a runner. An unknown `AGENTWEAVER_RUNNER_*` key or a malformed value stops the process. */
export const RunnerEnv = z.strictObject({
  /** Inherited file descriptor of the connection to AgentHost. */
  AGENTWEAVER_RUNNER_FD: z.coerce.number().int().min(3).max(64),
  AGENTWEAVER_RUNNER_BACKEND: BackendName,
  /** Private folder for temporary files. The runner removes it when it exits. */
  AGENTWEAVER_RUNNER_TEMP: z.string().startsWith('/').optional(),
  /** JSON array of toolchain folders that are mounted read-only in addition to the system folders. */
  AGENTWEAVER_RUNNER_TOOL_ROOTS: jsonArrayOf(AbsolutePath, 'absolute paths'),
  /** JSON array of the folders in the operator's ceiling, which commands may read when a request asks for them. */
  AGENTWEAVER_RUNNER_HOST_ROOTS: jsonArrayOf(HostRoot, '{path, real}'),
  /** Folder of the egress proxy's socket, the only way out of the sandbox. */
  AGENTWEAVER_RUNNER_EGRESS_FOLDER: z.string().startsWith('/').optional(),
})
export type RunnerEnv = z.infer<typeof RunnerEnv>

/** How the offline runner of a pod removes network access: its own network namespace, or a seccomp filter. */
export const OfflineForm = z.enum(['namespace', 'filter'])
export type OfflineForm = z.infer<typeof OfflineForm>

/** Environment of a runner in a pod. The pod sets only the first two keys. */
export const PodRunnerEnv = z.strictObject({
  AGENTWEAVER_RUNNER_ROLE: z.enum(['online', 'offline']),
  /** Mount path of the workspace. The runner opens nothing outside it. */
  AGENTWEAVER_RUNNER_WORKSPACE: z.string().regex(/^\/[^\0]*[^\0/]$/),
  /** How much commands may write to the workspace. A kubelet evicts a pod whose volume is larger than its limit. */
  AGENTWEAVER_RUNNER_WORKSPACE_BYTES: z.coerce.number().int().min(1_048_576).optional(),
  /** Address of the egress proxy, `IP:PORT`, for the online runner. Without it, the runner has no relay. */
  AGENTWEAVER_EGRESS_ADDRESS: z
    .string()
    .regex(/^(?:\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9.-]{1,253}):[1-9]\d{0,4}$/, 'must be HOST:PORT')
    .optional(),
  /** `auto` uses a namespace if the container runtime permits it. */
  AGENTWEAVER_RUNNER_OFFLINE: z.enum(['auto', ...OfflineForm.options]).default('auto'),
  /** Set by the online runner for the offline runner: the inherited connection. */
  AGENTWEAVER_RUNNER_FD: z.coerce.number().int().min(3).max(64).optional(),
  /** Set together with it: why a filter is used instead of a namespace. */
  AGENTWEAVER_RUNNER_WHY_FILTER: z.string().max(2000).optional(),
})
export type PodRunnerEnv = z.infer<typeof PodRunnerEnv>
export const RUNNER_ENV_PREFIX = 'AGENTWEAVER_RUNNER_'
/** Keys without the prefix that a runner in a pod reads. */
export const POD_RUNNER_KEYS = ['AGENTWEAVER_EGRESS_ADDRESS'] as const
