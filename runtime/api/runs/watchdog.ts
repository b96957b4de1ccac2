import type { RunLimits } from './deps.ts'

export type Pulse = {
  /** Whether a turn or a command is working. */
  readonly working: boolean
  /** Whether the run waits for a person: that time counts for nothing. */
  readonly waiting: boolean
}

export type Alarms = {
  readonly onExpired: (requestId: string) => void
  readonly onStalled: () => void
  readonly onOverdue: () => void
  readonly onIdle: () => void
}

const TICK_MS = 250

/**
 * The clocks of one run, on one ticker: approvals that expire, a sandbox that says nothing while a turn works,
 * the limit of active time, the limit of idleness.
 */
export function createWatchdog(limits: RunLimits, pulse: () => Pulse, alarms: Alarms) {
  const expiries = new Map<string, number>()
  let lastSign = performance.now()
  let lastTick = lastSign
  let activeMs = 0

  function checkLimits(now: number): void {
    const { working, waiting } = pulse()
    if (waiting) {
      lastSign = now
      return
    }
    const quietMs = now - lastSign
    if (working) activeMs += now - lastTick
    if (working && activeMs > limits.runTimeoutMs) alarms.onOverdue()
    else if (working && quietMs > limits.stallTimeoutMs) alarms.onStalled()
    else if (!working && quietMs > limits.idleTimeoutMs) alarms.onIdle()
  }

  function tick(): void {
    const now = performance.now()
    for (const [requestId, at] of expiries) {
      if (at > Date.now()) continue
      expiries.delete(requestId)
      alarms.onExpired(requestId)
    }
    checkLimits(now)
    lastTick = now
  }

  const timer = setInterval(tick, TICK_MS)
  return {
    /** The sandbox gave a sign of life, or somebody used it. */
    sign: () => {
      lastSign = performance.now()
    },
    expireAt: (requestId: string, at: string) => expiries.set(requestId, Date.parse(at)),
    stop: () => clearInterval(timer),
  }
}
