import type { ErrorCode } from '../../contracts/errors.ts'

/** An expected error. `message` says what happened and what to do; `code` is stable. */
export class SandboxError extends Error {
  readonly code: ErrorCode

  constructor(code: ErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options)
    this.name = 'SandboxError'
    this.code = code
  }
}

/** The message of any thrown value. */
export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

/** The `code` of a Node system error, if it has one. */
export function errnoOf(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('code' in error)) return undefined
  return typeof error.code === 'string' ? error.code : undefined
}
