/** The position of a saved session and workspace. */
export interface Checkpoint {
  /** The last event of the run that the checkpoint includes. */
  readonly sequence: number
  /** The turn in the middle of which the session was saved. */
  readonly turnId?: string
  /** The calls that waited then. */
  readonly carriedCalls?: readonly string[]
}
