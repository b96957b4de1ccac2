import { z } from 'zod'
import { BackendName } from './exec.ts'

/** Environment of a runner. An unknown `AGENTWEAVER_RUNNER_*` key or a malformed value stops the process. */
export const RunnerEnv = z.strictObject({
  /** How it reaches AgentHost: the descriptor it inherited. */
  AGENTWEAVER_RUNNER_FD: z.coerce.number().int().min(3).max(64),
  AGENTWEAVER_RUNNER_BACKEND: BackendName,
  /** A folder for temporary files that is the runner's alone: it removes it at its end. */
  AGENTWEAVER_RUNNER_TEMP: z.string().startsWith('/').optional(),
  /** JSON array of absolute folders that are mounted read-only beside the system's: toolchains. */
  AGENTWEAVER_RUNNER_TOOL_ROOTS: z
    .string()
    .default('[]')
    .transform((text, context) => {
      try {
        return z.array(z.string().startsWith('/')).max(64).parse(JSON.parse(text))
      } catch {
        context.addIssue({ code: 'custom', message: 'must be a JSON array of absolute paths' })
        return z.NEVER
      }
    }),
})
export type RunnerEnv = z.infer<typeof RunnerEnv>
export const RUNNER_ENV_PREFIX = 'AGENTWEAVER_RUNNER_'
