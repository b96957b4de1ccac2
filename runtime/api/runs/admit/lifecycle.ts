import type { CreateSandbox, ForkRun, Run, StartRun, StartTurn, Turn } from '../../../../contracts/api.ts'
import { delay, withTimeout } from '../../../kit/deadline.ts'
import { SandboxError } from '../../../kit/errors.ts'
import type { RunRow } from '../../../store/store.ts'
import type { RunDeps } from '../deps.ts'
import type { ActiveRuns } from '../drive/active-runs.ts'
import { endUndriven } from '../drive/end-undriven.ts'
import { type Ending, type FinishParts, finishRun } from '../drive/finish.ts'
import { recordContribution } from '../gates/contributors.ts'
import { timeOrderedId } from '../ids.ts'
import { requestResumption } from '../machine/transition.ts'
import type { Dispatcher } from '../queue/dispatcher.ts'
import type { RunViews } from '../queue/queue-view.ts'
import { hasEnded, isFinal, requireRun, toRun } from '../run-view.ts'
import type { Caller, RunService } from '../service.ts'
import { insertFork, insertRun, insertSandbox, type StartDeps } from './start-run.ts'
import type { Uploads } from './uploads.ts'

export type LifecycleParts = {
  readonly deps: RunDeps
  readonly start: StartDeps
  readonly active: ActiveRuns
  readonly queue: Pick<Dispatcher, 'wake'>
  readonly uploads: Uploads
  readonly views: RunViews
  readonly finishParts: FinishParts
}

/** `POST …/cancel` returns after this time, even if the run is not final yet. */
const CANCEL_ANSWER_MS = 2_000
const LOOK_AGAIN_MS = 50
const EVENT_WAIT_MS = 1_000
/** As long as a launch may take. */
const SANDBOX_ANSWER_MS = 150_000
/** Less than the time limit of a client's request. */
const SUSPEND_ANSWER_MS = 50_000

/** Runs from their request to their end. */
export class Lifecycle {
  readonly #parts: LifecycleParts

  constructor(parts: LifecycleParts) {
    this.#parts = parts
  }

  async startRun(caller: Caller, request: StartRun): Promise<Run> {
    return toRun(await this.#begin(() => insertRun(this.#parts.start, caller, request)))
  }

  async forkRun(caller: Caller, id: string, request: ForkRun): Promise<Run> {
    return toRun(await this.#begin(() => insertFork(this.#parts.start, caller, { id, request })))
  }

  async createSandbox(caller: Caller, request: CreateSandbox): Promise<Run> {
    const run = await this.#begin(() => insertSandbox(this.#parts.start, caller, request))
    if (run.state !== 'waiting_upload') await this.#untilServing(run)
    return this.#reread(run.id)
  }

  async uploadWorkspace(caller: Caller, id: string, archive: AsyncIterable<Uint8Array>): Promise<Run> {
    const { deps, uploads, queue } = this.#parts
    const run = await requireRun(deps.store, caller, id)
    await uploads.receive(caller, run, archive)
    queue.wake()
    if (run.kind === 'command') await this.#untilServing(run)
    return this.#reread(id)
  }

  async startTurn(caller: Caller, id: string, { prompt, final }: StartTurn): Promise<Turn> {
    const { deps, active, queue } = this.#parts
    const run = await requireRun(deps.store, caller, id)
    if (run.kind !== 'agent') throw new SandboxError('conflict', `${id} is a sandbox without an agent`)
    const turnId = timeOrderedId('turn', deps.clock())
    const turn = await deps.store.transaction(async (tx) => {
      const current = await tx.readRun(id)
      if (!current || isFinal(current) || current.state === 'ending') {
        throw hasEnded(id, current)
      }
      tx.announce(id)
      await tx.insertTurn({ id: turnId, runId: id, state: 'queued', prompt, final })
      await recordContribution(tx, caller, { runId: id, how: 'turn', at: deps.clock().toISOString() })
      const queued: Turn = { id: turnId, runId: id, state: 'queued' }
      if (current.state === 'suspended') await requestResumption(tx, current)
      await caller.keep?.(tx, queued)
      return queued
    })
    active.get(id)?.notifyTurn()
    queue.wake()
    return turn
  }

  /** The methods of the service that stop a run, for good or for a while. */
  stops(): Pick<RunService, 'suspend' | 'resume' | 'cancel' | 'destroySandbox'> {
    return {
      suspend: (caller, id) => this.suspend(caller, id),
      resume: (caller, id) => this.resume(caller, id),
      cancel: (caller, id) => this.cancel(caller, id),
      destroySandbox: (caller, id) => this.end(caller, id),
    }
  }

  async suspend(caller: Caller, id: string): Promise<Run> {
    const { deps, active } = this.#parts
    const run = await requireRun(deps.store, caller, id)
    if (run.kind !== 'agent') throw new SandboxError('conflict', `${id} is a sandbox without an agent`)
    if (isFinal(run)) throw hasEnded(id, run)
    if (run.state === 'suspended') return toRun(run)
    if (run.endsWithService)
      throw new SandboxError(
        'conflict',
        `run ${id} ends with the command that started it, so it cannot be suspended; start runs with "agentweaver serve" running`,
      )
    if (run.state !== 'waiting' && run.state !== 'suspending')
      throw new SandboxError('conflict', `run ${id} is ${run.state}; only a run that waits can be suspended`)
    const driven = active.get(id)
    if (driven) await driven.suspend()
    else await this.#askDriver(id)
    await this.#keepReread(caller, id)
    return this.#reread(id)
  }

  /** Asks the process that drives the run to suspend it. */
  async #askDriver(id: string): Promise<void> {
    const { store, clock } = this.#parts.deps
    await store.transaction(async (tx) => {
      await tx.changeRun(id, { suspendAskedAt: clock().toISOString() })
      tx.announce(id)
    })
    for (const signal = withTimeout(SUSPEND_ANSWER_MS); !signal.aborted; await delay(LOOK_AGAIN_MS)) {
      const run = await store.readRun(id)
      if (run?.state !== 'waiting' && run?.state !== 'suspending') return
    }
    throw new SandboxError('conflict', `run ${id} was not suspended in time; read its state and try again`)
  }

  async resume(caller: Caller, id: string): Promise<Run> {
    const { deps, queue } = this.#parts
    const run = await requireRun(deps.store, caller, id)
    if (isFinal(run)) throw hasEnded(id, run)
    for (const signal = withTimeout(SUSPEND_ANSWER_MS); !signal.aborted; await delay(LOOK_AGAIN_MS))
      if ((await deps.store.readRun(id))?.state !== 'suspending') break
    await deps.store.transaction(async (tx) => {
      const current = await tx.readRun(id)
      if (current?.state === 'suspended') await requestResumption(tx, current)
      tx.announce(id)
    })
    queue.wake()
    await this.#keepReread(caller, id)
    return this.#reread(id)
  }

  /** Stores the response under the request's idempotency key. The change itself is already committed. */
  async #keepReread(caller: Caller, id: string): Promise<void> {
    if (!caller.keep) return
    await this.#parts.deps.store.transaction(async (tx) => {
      const run = await tx.readRun(id)
      if (run) await caller.keep?.(tx, toRun(run))
    })
  }

  async cancel(caller: Caller, id: string): Promise<Run> {
    await this.end(caller, id)
    return this.#reread(id)
  }

  /** Ends a run or a sandbox as cancelled; one that has ended is left as it is. */
  async end(caller: Caller, id: string): Promise<void> {
    await requireRun(this.#parts.deps.store, caller, id)
    const ending = { state: 'cancelled', by: caller.owner } as const
    for (let waited = 0; waited < CANCEL_ANSWER_MS; waited += LOOK_AGAIN_MS) {
      if (await this.#endOnce(id, ending)) return
      await delay(LOOK_AGAIN_MS)
    }
  }

  /** Returns false if the run has passed from the queue to a driver, or back, in the meantime. */
  async #endOnce(id: string, ending: Ending): Promise<boolean> {
    const { deps, active } = this.#parts
    const driven = active.get(id)
    if (driven) {
      driven.end(ending)
      await Promise.race([driven.finished, delay(CANCEL_ANSWER_MS)])
      // The driver did not finish in time, and keeps ending the run.
      if (active.get(id) === driven) {
        await this.#keepEnding(id, ending)
        return true
      }
    } else if (!(await this.#endUndriven(id, ending)) && deps.provider.shared) {
      await this.#askToEnd(id, ending)
      return true
    }
    const run = await deps.store.readRun(id)
    return !run || isFinal(run) || run.ending !== undefined
  }

  /** Returns false if a process drives the run, or is about to. */
  async #endUndriven(id: string, ending: Ending): Promise<boolean> {
    const { deps, uploads, finishParts } = this.#parts
    if (await endUndriven(deps, finishParts, { id, ending })) return true
    const isWaiting = ({ state }: RunRow) => state === 'waiting_upload'
    await finishRun(deps, finishParts, { runId: id, ending, onlyIf: isWaiting })
    const run = await deps.store.readRun(id)
    if (run && !isFinal(run)) return false
    uploads.forget(id)
    return true
  }

  /**
   * Stores an end that the driver could not store in time. If the store cannot be used, the caller gets an
   * error, because the stored state would show a run that continues.
   */
  async #keepEnding(id: string, ending: Ending): Promise<void> {
    await this.#parts.deps.store.transaction(async (tx) => {
      const run = await tx.readRun(id)
      if (!run || isFinal(run)) return
      if (run.ending === undefined) await tx.changeRun(id, { ending })
      await tx.expireInQueue(id)
    })
  }

  /** Asks the process that drives the run, now or soon, to end it. */
  async #askToEnd(id: string, ending: Ending): Promise<void> {
    const { store } = this.#parts.deps
    const isAsked = await store.transaction(async (tx) => {
      const run = await tx.readRun(id)
      if (!run || isFinal(run)) return false
      if (run.ending === undefined) await tx.changeRun(id, { ending })
      // If it waits in the queue, nothing drives it.
      await tx.expireInQueue(id)
      tx.announce(id)
      return true
    })
    for (let waited = 0; isAsked && waited < CANCEL_ANSWER_MS; waited += LOOK_AGAIN_MS) {
      await delay(LOOK_AGAIN_MS)
      const run = await store.readRun(id)
      if (!run || isFinal(run)) return
    }
  }

  /** Writes the run, and starts it or its wait for an upload. */
  async #begin(insert: () => Promise<RunRow>): Promise<RunRow> {
    const { queue, uploads } = this.#parts
    const run = await insert()
    if (run.state === 'waiting_upload') uploads.expect(run)
    else queue.wake()
    return run
  }

  /**
   * The request for a sandbox returns when the sandbox serves, so that the next request can use it. If the sandbox waits in the
   * queue for long, the request returns earlier.
   */
  async #untilServing({ id }: RunRow): Promise<void> {
    const { deps, active } = this.#parts
    for (const signal = withTimeout(SANDBOX_ANSWER_MS); !signal.aborted; ) {
      const changed = untilEvent(deps.store, id)
      await active.get(id)?.serving.catch(() => undefined)
      const run = await deps.store.readRun(id)
      if (run?.state === 'waiting') return
      if (run && isFinal(run)) throw notStarted(run)
      await changed
    }
  }

  async #reread(id: string): Promise<Run> {
    const run = await this.#parts.deps.store.readRun(id)
    if (!run)
      throw new SandboxError('not_found', `there is no ${id.startsWith('sbx_') ? 'sandbox' : 'run'} ${id}`)
    return this.#parts.views.of(run)
  }
}

/** Resolves at the next event of the run, or after a second. */
function untilEvent(store: RunDeps['store'], id: string): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const unsubscribe = store.onEvents(id, () => resolve())
  const timer = setTimeout(resolve, EVENT_WAIT_MS)
  return promise.finally(() => {
    clearTimeout(timer)
    unsubscribe()
  })
}

const notStarted = ({ failure }: RunRow) =>
  new SandboxError(failure?.code ?? 'run_ended', failure?.message ?? 'the sandbox was ended before it served')
