import type { CommandShell } from '../../contracts/exec.ts'
import type { RunPhase } from '../../contracts/policy.ts'
import type { Touched } from './touched.ts'

/** A tool call as received from the agent. Nothing in it has been validated. */
export interface ToolRequest {
  readonly tool: string
  readonly arguments: unknown
}

/** The state of the run at the time of the call. */
export interface RunFacts {
  readonly isRealIsolation: boolean
  /** The shell that runs commands. Undefined if AgentHost did not report it. */
  readonly shell?: CommandShell | undefined
  readonly phase: RunPhase
  readonly touched: Touched
}
