import type { RunSource } from '../../contracts/events.ts'

/** The position of a saved session and workspace. */
export interface Checkpoint {
  /** The last event of the run that the checkpoint includes. */
  readonly sequence: number
  /** The turn in the middle of which the session was saved. */
  readonly turnId?: string
  /** The calls that waited then. */
  readonly carriedCalls?: readonly string[]
}

/** The checkpoint of another run that a run began from. */
export interface RunOrigin extends RunSource {
  /** The last event of that run that the checkpoint includes. */
  readonly sequence: number
}
