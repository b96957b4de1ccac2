import type { RunLimits } from '../deps.ts'
import type { ActiveTime } from './active-time.ts'

export type Pulse = {
  /** Whether a turn or a command is working. */
  readonly working: boolean
  /** Whether the run waits for a person: that time counts for nothing. */
  readonly waiting: boolean
  /** Whether nothing goes on in the sandbox until a person acts: the run could do without it. */
  readonly quiet: boolean
}

export type Alarms = {
  readonly onExpired: (requestId: string) => void
  readonly onStalled: () => void
  readonly onOverdue: () => void
  readonly onIdle: () => void
  /** The run has been quiet for the time after which it is suspended. */
  readonly onQuiet: () => void
}

type Clocks = { readonly limits: RunLimits; readonly activeTime: ActiveTime }

const TICK_MS = 250

/**
 * The clocks of one run, on one ticker: approvals that expire, a sandbox that says nothing while a turn works,
 * the limit of active time, the limit of idleness.
 */
export function createWatchdog({ limits, activeTime }: Clocks, pulse: () => Pulse, alarms: Alarms) {
  const expiries = new Map<string, number>()
  let lastSign = performance.now()
  let lastTick = lastSign
  let isServing = false
  let quietSince = lastSign

  /** A turn or a command works: it may be overdue, or the sandbox may have gone silent. */
  function checkWork(now: number): void {
    activeTime.add(now - lastTick)
    if (activeTime.ms > limits.runTimeoutMs) alarms.onOverdue()
    else if (now - lastSign > limits.stallTimeoutMs) alarms.onStalled()
  }

  function checkLimits(now: number): void {
    const { working, waiting, quiet } = pulse()
    checkQuiet(now, quiet)
    if (waiting) lastSign = now
    else if (working) checkWork(now)
    else if (isServing && now - lastSign > limits.idleTimeoutMs) alarms.onIdle()
  }

  function checkQuiet(now: number, quiet: boolean): void {
    if (!quiet || !isServing) quietSince = now
    if (limits.suspendAfterMs === undefined || now - quietSince <= limits.suspendAfterMs) return
    quietSince = now
    alarms.onQuiet()
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
    /** The sandbox serves: from now on the run can be idle. */
    serve: () => {
      isServing = true
      lastSign = performance.now()
    },
    /** The sandbox has shown activity, or a person has used it. */
    sign: () => {
      lastSign = performance.now()
      quietSince = lastSign
    },
    expireAt: (requestId: string, at: string) => expiries.set(requestId, Date.parse(at)),
    stop: () => clearInterval(timer),
  }
}
