import type { RunEvent } from '../../../../contracts/events.ts'
import { parseQuantity } from '../../../../contracts/quantity.ts'
import { messageOf, SandboxError } from '../../../kit/errors.ts'
import type { RunRow } from '../../../store/store.ts'
import type { RunDeps } from '../deps.ts'
import { whileHeld } from '../held-run.ts'
import { transition } from '../machine/transition.ts'

export const CAPACITY_WAIT = {
  /** How often a run waits for room before it is given up. */
  attempts: 10,
  /** How long at most: where nothing shows room it tries all the same. */
  retryMs: 60_000,
  /** Minimum wait, even if there seems to be room. It doubles each time, so that ten waits take two minutes. */
  firstPauseMs: 500,
  longestPauseMs: 30_000,
} as const

/** The run is in the queue again, because the cluster has no room. Its driver leaves it. */
export class WaitsForRoom extends Error {}

/** Whether a launch failed because the cluster has no room. */
export const isLack = (error: unknown): error is SandboxError =>
  error instanceof SandboxError &&
  (error.code === 'agent_quota_exceeded' || error.code === 'capacity_unavailable')

/**
 * Puts a run whose launch found no room back into the queue, and reports which resource is missing. A run that has work to
 * lose waits until there is room. Any other run is given up after the last attempt: `capacity_unavailable`.
 */
export async function waitForRoom(
  { store, clock }: Pick<RunDeps, 'store' | 'clock'>,
  run: RunRow,
  lack: SandboxError,
): Promise<WaitsForRoom> {
  const { attempts: most, retryMs, firstPauseMs, longestPauseMs } = CAPACITY_WAIT
  const nextAttemptAt = new Date(clock().getTime() + retryMs).toISOString()
  await whileHeld(store, run, async (tx, current) => {
    if (current.ending !== undefined) throw new SandboxError('run_ended', `run ${run.id} is to end`)
    const waits = await tx.readAttempts(run.id)
    if (waits >= most && current.checkpoint === undefined) throw givenUp(lack, waits)
    const attempt = waits + 1
    const event: RunEvent = {
      type: 'subtask.pending_capacity',
      data: { ...lackIn(lack.message), attempt, nextAttemptAt },
    }
    await tx.appendEvents(run.id, [{ event }])
    await transition(tx, current, { event: { kind: 'no_room' } })
    const pauseMs = Math.min(firstPauseMs * 2 ** Math.min(waits, most), longestPauseMs)
    await tx.waitForRoom(run.id, { pauseMs, retryMs })
  })
  return new WaitsForRoom(`run ${run.id} waits for room`)
}

const givenUp = (cause: SandboxError, attempts: number) => {
  const message = `no sandbox became free in ${attempts} tries; start the run again later, or ask an operator for more room: ${messageOf(cause)}`
  return new SandboxError('capacity_unavailable', message, { cause })
}

type Lack = { readonly resource: string; readonly requested: number; readonly available: number }

/** As the API server says it: `exceeded quota: NAME, requested: pods=1, used: pods=5, limited: pods=5`. */
const QUOTA = /requested: ([\w./-]+)=(\w+)[^:]*, used: [^:]*?\1=(\w+)[^:]*, limited: [^:]*?\1=(\w+)/

/** The missing resource, if the cluster names it: the first resource of the quota, or a sandbox of the pool. */
export function lackIn(message: string): Lack {
  const [, resource, ...quantities] = QUOTA.exec(message) ?? []
  const [requested, used, limited] = quantities.map(parseQuantity)
  if (resource === undefined || requested === undefined || used === undefined || limited === undefined)
    return { resource: 'sandboxes', requested: 1, available: 0 }
  return { resource, requested, available: Math.max(0, limited - used) }
}
