import { expect, it, onTestFinished, vi } from 'vitest'
import { createWatchdog } from '../../runtime/api/runs/drive/watchdog.ts'

const HOUR_MS = 3_600_000
const LIMITS = {
  maxRuns: 1,
  maxRunsPerOwner: 1,
  maxQueued: 1,
  maxQueuedPerOwner: 1,
  maxLaunches: 1,
  queueTimeoutMs: 1_000_000,
  approvalTtlMs: HOUR_MS,
  idleTimeoutMs: 1_000,
  stallTimeoutMs: HOUR_MS,
  runTimeoutMs: HOUR_MS,
  uploadTimeoutMs: HOUR_MS,
  suspendAfterMs: undefined,
  maxSuspendedPerOwner: 100,
  maxStoredBytesPerOwner: 1_000_000,
  checkpointEveryMs: 120_000,
  suspendedRetentionMs: 1_000_000,
}

it('counts idle time only from the moment the sandbox serves', () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] })
  onTestFinished(() => void vi.useRealTimers())
  const onIdle = vi.fn()
  const other = () => undefined
  const watchdog = createWatchdog(
    { limits: LIMITS, activeTime: { ms: 0, add: other } },
    () => ({ working: false, waiting: false, quiet: false }),
    { onExpired: other, onStalled: other, onOverdue: other, onIdle, onQuiet: other },
  )
  onTestFinished(() => watchdog.stop())

  vi.advanceTimersByTime(HOUR_MS)
  expect(onIdle, 'before the sandbox serves').not.toHaveBeenCalled()
  watchdog.serve()
  vi.advanceTimersByTime(LIMITS.idleTimeoutMs)
  expect(onIdle, 'within the limit').not.toHaveBeenCalled()
  vi.advanceTimersByTime(LIMITS.idleTimeoutMs)
  expect(onIdle, 'after the limit').toHaveBeenCalled()
})
