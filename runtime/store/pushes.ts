import type * as z from 'zod'
import type { PushGrant } from './columns.ts'

/** A run whose sandbox pushes the result of another run for a person. */
export interface PushingRun {
  readonly push?: z.infer<typeof PushGrant>
}

/** The last commit that a run has pushed to a branch. */
export interface PushedBranch {
  /** `HOST:PORT/PATH` without `.git`. */
  readonly repository: string
  readonly ref: string
  readonly commit: string
}

export interface PushReads {
  /** The newest last. */
  listPushed(runId: string): Promise<PushedBranch[]>
}

export interface PushTransaction {
  /** Replaces the commit of the branch. The oldest branches of a run are forgotten when there are too many. */
  recordPushed(runId: string, pushed: PushedBranch & { readonly at: string }): Promise<void>
}
