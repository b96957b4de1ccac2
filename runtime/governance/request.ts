import type { CommandShell } from '../../contracts/exec.ts'
import type { RunPhase } from '../../contracts/policy.ts'

/** A tool call as it comes from the agent: nothing in it has been checked. */
export interface ToolRequest {
  readonly tool: string
  readonly arguments: unknown
}

/** What a run has learned by its own actions. A field that is true never becomes false again. */
export interface Touched {
  /** The agent may have seen the contents of a file that the policy labels as secret. */
  readonly secret: boolean
}

/** What is true of the run at this moment. */
export interface RunFacts {
  readonly isRealIsolation: boolean
  /** The shell that runs commands; absent where it is not known. */
  readonly shell?: CommandShell | undefined
  readonly phase: RunPhase
  readonly touched: Touched
}
