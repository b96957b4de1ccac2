import { onTestFinished, vi } from 'vitest'

/**
 * Disables timers of exactly this many milliseconds in the test, so that an operation that ends early has ended for
 * another reason.
 */
export function withoutDeadline(ms: number): void {
  const start = globalThis.setTimeout
  const patient = (work: () => void, after?: number) => start(work, after === ms ? 2 ** 31 - 1 : after)
  const spy = vi.spyOn(globalThis, 'setTimeout').mockImplementation(patient as typeof setTimeout)
  onTestFinished(() => spy.mockRestore())
}
