import { deadline, delay, withTimeout } from '../kit/deadline.ts'
import { SandboxError } from '../kit/errors.ts'

/** A failure after which a retry may help. `retryWithin` never throws it. */
export class Transient extends Error {
  readonly retryAfterMs: number

  constructor(message: string, retryAfterMs = 0) {
    super(message)
    this.name = 'Transient'
    this.retryAfterMs = retryAfterMs
  }
}

const FIRST_DELAY_MS = 100
const MAX_DELAY_MS = 2_000
/** Short enough that the budget allows another attempt after a timeout. */
const ATTEMPT_MS = 4_000

/**
 * Retries until an attempt succeeds or the budget is used up; then throws `credential_unavailable` with the last failure.
 * Throws at once if `Retry-After` exceeds the remaining budget.
 */
export async function retryWithin<T>(
  budgetMs: number,
  attempt: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const end = performance.now() + budgetMs
  let last = SILENT
  for (let delayMs = FIRST_DELAY_MS; ; delayMs = Math.min(delayMs * 2, MAX_DELAY_MS)) {
    const leftMs = end - performance.now()
    if (leftMs <= 0) throw exhausted(last)
    try {
      const attemptMs = Math.min(Math.ceil(leftMs), ATTEMPT_MS)
      return await deadline('the credential', attemptMs, attempt(withTimeout(attemptMs)))
    } catch (error) {
      last = messageOfTransient(error)
      // Jitter, so that pods that started together do not retry together.
      const waitMs = Math.max(delayMs * (0.5 + Math.random() / 2), retryAfterMs(error))
      if (performance.now() + waitMs >= end) throw exhausted(last)
      await delay(waitMs)
    }
  }
}

const SILENT = 'no server responded in time'

const exhausted = (last: string) => new SandboxError('credential_unavailable', last)

const retryAfterMs = (error: unknown) => (error instanceof Transient ? error.retryAfterMs : 0)

/** The message of a temporary failure. Rethrows every other error. */
function messageOfTransient(error: unknown): string {
  if (error instanceof Transient) return error.message
  if (error instanceof SandboxError && error.code === 'deadline_exceeded') return SILENT
  throw error
}
