import { onTestFinished, vi } from 'vitest'

/**
 * Deadlines of exactly so many milliseconds do not pass in this test: what ends before the test does has ended for
 * another reason, however long it took.
 */
export function withoutDeadline(ms: number): void {
  const start = globalThis.setTimeout
  const patient = (work: () => void, after?: number) => start(work, after === ms ? 2 ** 31 - 1 : after)
  const spy = vi.spyOn(globalThis, 'setTimeout').mockImplementation(patient as typeof setTimeout)
  onTestFinished(() => spy.mockRestore())
}
