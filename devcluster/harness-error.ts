/** A failure that the terminal shows as its message only, without a stack trace. */
export class HarnessError extends Error {
  override readonly name = 'HarnessError'
}

/** The message of any thrown value. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
