/** A failure that is told to the person at the terminal in its message alone, without a stack. */
export class HarnessError extends Error {
  override readonly name = 'HarnessError'
}

/** The message of anything that was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
