import type { CommandShell } from '../../contracts/exec.ts'
import type { RunPhase } from '../../contracts/policy.ts'

/** A tool call as received from the agent. Nothing in it has been validated. */
export interface ToolRequest {
  readonly tool: string
  readonly arguments: unknown
}

/** What the run has learned through its calls. A flag that is set is never cleared. */
export interface Touched {
  /** Whether the agent may have seen the content of a secret file. */
  readonly secret: boolean
}

/** The state of the run at the time of the call. */
export interface RunFacts {
  readonly isRealIsolation: boolean
  /** The shell that runs commands. Undefined if AgentHost did not report it. */
  readonly shell?: CommandShell | undefined
  readonly phase: RunPhase
  readonly touched: Touched
}
