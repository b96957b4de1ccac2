import * as z from 'zod'
import { BackendName } from './backends.ts'
import { AbsolutePath, HostRoot } from './paths.ts'

/** A setting that is a JSON array of at most 64 items; absent, there are none. */
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
  /** How it reaches AgentHost: the descriptor it inherited. */
  AGENTWEAVER_RUNNER_FD: z.coerce.number().int().min(3).max(64),
  AGENTWEAVER_RUNNER_BACKEND: BackendName,
  /** A folder for temporary files that is the runner's alone: it removes it at its end. */
  AGENTWEAVER_RUNNER_TEMP: z.string().startsWith('/').optional(),
  /** JSON array of absolute folders that are mounted read-only beside the system's: toolchains. */
  AGENTWEAVER_RUNNER_TOOL_ROOTS: jsonArrayOf(AbsolutePath, 'absolute paths'),
  /** JSON array of the folders that the operator's ceiling allows commands to read, wherever a request asks for them. */
  AGENTWEAVER_RUNNER_HOST_ROOTS: jsonArrayOf(HostRoot, '{path, real}'),
})
export type RunnerEnv = z.infer<typeof RunnerEnv>

/** How the offline runner of a pod does without the network: by a namespace of its own, or by a filter on itself. */
export const OfflineForm = z.enum(['namespace', 'filter'])
export type OfflineForm = z.infer<typeof OfflineForm>

/** Environment of a runner in a pod, told by `AGENTWEAVER_RUNNER_ROLE`. The pod gives the first two keys alone. */
export const PodRunnerEnv = z.strictObject({
  AGENTWEAVER_RUNNER_ROLE: z.enum(['online', 'offline']),
  /** The mount of the workspace: nothing else can be opened. */
  AGENTWEAVER_RUNNER_WORKSPACE: z.string().regex(/^\/[^\0]*[^\0/]$/),
  /** `auto` takes the namespace where the runtime permits it. */
  AGENTWEAVER_RUNNER_OFFLINE: z.enum(['auto', ...OfflineForm.options]).default('auto'),
  /** Set by the online runner for the offline one: the connection that it inherits. */
  AGENTWEAVER_RUNNER_FD: z.coerce.number().int().min(3).max(64).optional(),
  /** Set with it: why the filter and no namespace. */
  AGENTWEAVER_RUNNER_WHY_FILTER: z.string().max(2000).optional(),
})
export type PodRunnerEnv = z.infer<typeof PodRunnerEnv>
export const RUNNER_ENV_PREFIX = 'AGENTWEAVER_RUNNER_'
