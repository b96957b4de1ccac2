/** An error response of the API server, with its machine-readable reason. */
export class KubeError extends Error {
  override readonly name = 'KubeError'
  readonly status: number
  readonly reason: string
  /** From `Retry-After`, if present. */
  readonly retryAfterMs: number | undefined

  constructor(status: number, body: string, retryAfterMs?: number) {
    const { reason, message } = parseStatus(body)
    super(`the API server responded with ${status}: ${message}`)
    this.status = status
    this.reason = reason
    this.retryAfterMs = retryAfterMs
  }
}

const MAX_MESSAGE = 500

function parseStatus(body: string): { reason: string; message: string } {
  const plain = { reason: '', message: body.slice(0, MAX_MESSAGE) }
  try {
    const status: unknown = JSON.parse(body)
    if (typeof status !== 'object' || status === null) return plain
    const { reason, message } = status as { reason?: unknown; message?: unknown }
    return {
      reason: typeof reason === 'string' ? reason : '',
      message: typeof message === 'string' ? message.slice(0, MAX_MESSAGE) : plain.message,
    }
  } catch {
    return plain
  }
}

export const isStatus = (error: unknown, status: number): error is KubeError =>
  error instanceof KubeError && error.status === status

/** Whether a retry may succeed: throttled, overloaded, restarting, or no response. */
export function isTransient(error: unknown): boolean {
  if (error instanceof KubeError) return error.status === 429 || error.status >= 500
  return true
}

/** Parses `Retry-After` in seconds. Kubernetes does not send dates. */
export function parseRetryAfter(header: string | readonly string[] | undefined): number | undefined {
  const seconds = Number(typeof header === 'string' ? header : Number.NaN)
  return Number.isFinite(seconds) && seconds >= 0 ? seconds * 1000 : undefined
}
