import { onTestFinished, vi } from 'vitest'

/**
 * Until the end of the test, time passes only in `vi.advanceTimersByTime`, for code that waits with `setTimeout`. Returns
 * a function with the duration in milliseconds of every wait so far.
 */
export function stopTimers(): () => readonly (number | undefined)[] {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  const started = vi.spyOn(globalThis, 'setTimeout')
  onTestFinished(() => {
    started.mockRestore()
    vi.useRealTimers()
  })
  return () => started.mock.calls.map(([, ms]) => ms)
}
