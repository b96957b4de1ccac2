import type { RunEvent } from '../../../../contracts/events.ts'
import type { SandboxKind } from '../../../../contracts/names.ts'
import { parseQuantity } from '../../../../contracts/quantity.ts'
import { messageOf, SandboxError } from '../../../kit/errors.ts'
import type { RunRow } from '../../../store/store.ts'
import type { RunDeps } from '../deps.ts'
import { whileHeld } from '../held-run.ts'
import { type LaunchedSandbox, launch } from '../launch/launch.ts'
import { transition } from '../machine/transition.ts'
import type { CapacityQueue } from './capacity-queue.ts'

export const CAPACITY_WAIT = {
  /** How often a run waits for room before it is given up. */
  attempts: 10,
  /** How long at most: where nothing shows room it tries all the same. */
  retryMs: 60_000,
  /** Minimum wait, even if there seems to be room. It doubles each time, so that ten waits take two minutes. */
  firstPauseMs: 500,
  longestPauseMs: 30_000,
} as const
type Wait = { readonly [Name in keyof typeof CAPACITY_WAIT]: number }

/** A queue for each kind of sandbox, because each kind has a separate pool. */
export type Capacity = Readonly<Record<SandboxKind, CapacityQueue>>
type Waiting = RunDeps & { readonly capacity: Capacity; readonly capacityWait?: Wait }

/**
 * Launches a run, and waits if the cluster has no room for it. Each wait is an event. Runs are served in order and
 * fairly between owners. After the last attempt a new run fails with `capacity_unavailable`; a run with a checkpoint waits on.
 */
export async function launchWhenRoom(
  deps: Waiting,
  run: RunRow,
  signal: AbortSignal,
): Promise<LaunchedSandbox> {
  const queue = deps.capacity[run.kind]
  return queue.during(() => tryUntilRoom(deps, run, { queue, signal }))
}

async function tryUntilRoom(
  deps: Waiting,
  run: RunRow,
  { queue, signal }: { readonly queue: CapacityQueue; readonly signal: AbortSignal },
): Promise<LaunchedSandbox> {
  const wait = deps.capacityWait ?? CAPACITY_WAIT
  let current = run
  // Who comes while others wait does not go before them.
  let lack: SandboxError | undefined = queue.length > 0 ? OTHERS_WAIT : undefined
  for (let attempt = 0; ; ) {
    if (lack) {
      if (attempt === attemptsOf(run, wait)) throw givenUp(lack, attempt)
      attempt += 1
      current = await recordWait(deps, run, { attempt, lack: lackIn(lack.message), retryMs: wait.retryMs })
      const atLeastMs = Math.min(wait.firstPauseMs * 2 ** (attempt - 1), wait.longestPauseMs)
      await queue.wait(run.owner, { atLeastMs, atMostMs: wait.retryMs }, signal)
    }
    const launched = await launch(deps, current, signal).catch(asLack)
    if (!(launched instanceof SandboxError)) return launched
    signal.throwIfAborted()
    lack = launched
  }
}

/** A run that continues has work to lose: it waits until there is room. */
const attemptsOf = ({ checkpoint }: RunRow, { attempts }: Wait) =>
  checkpoint ? Number.POSITIVE_INFINITY : attempts

const OTHERS_WAIT = new SandboxError('capacity_unavailable', 'other runs wait for a sandbox')

/** Returns an error about missing room, and throws every other error of a launch. */
function asLack(error: unknown): SandboxError {
  const isLack =
    error instanceof SandboxError &&
    (error.code === 'agent_quota_exceeded' || error.code === 'capacity_unavailable')
  if (isLack) return error
  throw error
}

const givenUp = (cause: SandboxError, attempts: number) => {
  const message = `no sandbox became free in ${attempts} tries; start the run again later, or ask an operator for more room: ${messageOf(cause)}`
  return new SandboxError('capacity_unavailable', message, { cause })
}

type Lack = { readonly resource: string; readonly requested: number; readonly available: number }

/** Records that the run waits for room, and for which resource. */
async function recordWait(
  { store, clock }: RunDeps,
  run: RunRow,
  { attempt, lack, retryMs }: { readonly attempt: number; readonly lack: Lack; readonly retryMs: number },
): Promise<RunRow> {
  const nextAttemptAt = new Date(clock().getTime() + retryMs).toISOString()
  const event: RunEvent = { type: 'subtask.pending_capacity', data: { ...lack, attempt, nextAttemptAt } }
  return whileHeld(store, run, async (tx, current) => {
    const state = await transition(tx, current, { event: { kind: 'no_room' } })
    await tx.appendEvents(run.id, [{ event }])
    return { ...current, state }
  })
}

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
