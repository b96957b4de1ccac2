/** Exponential back-off; half of each delay is random, so that clients do not all reconnect at once. */
export interface BackOff {
  next(): number
  reset(): void
}

export type BackOffOptions = {
  readonly baseMs: number
  readonly maxMs: number
  /** @default Math.random */
  readonly random?: () => number
}

export function createBackOff({ baseMs, maxMs, random = Math.random }: BackOffOptions): BackOff {
  let attempt = 0
  return {
    next() {
      const full = Math.min(maxMs, baseMs * 2 ** attempt)
      attempt = Math.min(attempt + 1, 30)
      return full / 2 + (full / 2) * random()
    },
    reset() {
      attempt = 0
    },
  }
}
