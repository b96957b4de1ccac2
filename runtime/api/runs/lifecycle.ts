import { delay } from '../../kit/deadline.ts'
import { SandboxError } from '../../kit/errors.ts'
import type { RunRow } from '../../store/store.ts'
import type { ActiveRuns } from './active-runs.ts'
import type { RunDeps } from './deps.ts'
import { type FinishParts, finishRun } from './finish.ts'
import { timeOrderedId } from './ids.ts'
import { isFinal, requireRun, toRun } from './run-view.ts'
import type { Caller, RunService } from './service.ts'
import { insertRun, insertSandbox, type StartDeps } from './start-run.ts'
import type { Uploads } from './uploads.ts'

export type LifecycleParts = {
  readonly deps: RunDeps
  readonly start: StartDeps
  readonly active: ActiveRuns
  readonly uploads: Uploads
  readonly finishParts: FinishParts
}

type Lifecycle = Pick<
  RunService,
  'startRun' | 'createSandbox' | 'uploadWorkspace' | 'startTurn' | 'cancel' | 'destroySandbox'
>

/** `POST …/cancel` answers by then, whether the run is final or not. */
const CANCEL_ANSWER_MS = 2_000

/** Runs from their request to their end. */
export function createRunLifecycle({ deps, start, active, uploads, finishParts }: LifecycleParts): Lifecycle {
  const { store } = deps

  /** Takes a place, writes the run, and starts it or its wait for an upload. */
  async function begin(caller: Caller, insert: () => Promise<RunRow>): Promise<RunRow> {
    const place = active.reserve(caller.owner)
    const run = await insert().catch((error) => {
      place.cancel()
      throw error
    })
    place.assign(run.id)
    if (run.state === 'awaiting_upload') uploads.expect(run)
    else active.launch(run)
    return run
  }

  async function end(caller: Caller, id: string): Promise<void> {
    const run = await requireRun(store, caller, id)
    const ending = { state: 'cancelled', by: caller.owner } as const
    const driven = active.get(id)
    if (driven) {
      driven.end(ending)
      await Promise.race([driven.finished, delay(CANCEL_ANSWER_MS)])
    } else if (!isFinal(run)) {
      uploads.forget(id)
      active.giveUp(id)
      await finishRun(deps, finishParts, { runId: id, ending })
    }
  }

  /** A sandbox answers when it serves, so that the next request can use it. */
  async function untilServing(run: RunRow): Promise<void> {
    const driven = active.get(run.id)
    if (!driven) return
    const serving = await driven.serving.then(
      () => true,
      () => false,
    )
    if (serving) return
    await driven.finished
    const { failure } = (await store.readRun(run.id)) ?? run
    throw new SandboxError(
      failure?.code ?? 'internal',
      failure?.message ?? 'the sandbox could not be started',
    )
  }

  const reread = async (id: string) => {
    const run = await store.readRun(id)
    if (!run) throw new SandboxError('not_found', `there is no run ${id}`)
    return toRun(run)
  }

  return {
    startRun: async (caller, request) => toRun(await begin(caller, () => insertRun(start, caller, request))),
    async createSandbox(caller, request) {
      const run = await begin(caller, () => insertSandbox(start, caller, request))
      if (run.state !== 'awaiting_upload') await untilServing(run)
      return reread(run.id)
    },
    async uploadWorkspace(caller, id, archive) {
      const run = await requireRun(store, caller, id)
      await uploads.receive(run, archive)
      const uploaded = await requireRun(store, caller, id)
      if (!isFinal(uploaded)) active.launch(uploaded)
      if (run.kind === 'command') await untilServing(uploaded)
      return reread(id)
    },
    async startTurn(caller, id, { prompt, final }) {
      const run = await requireRun(store, caller, id)
      if (run.kind !== 'agent') throw new SandboxError('conflict', `${id} is a sandbox without an agent`)
      const turnId = timeOrderedId('turn', deps.clock())
      const turn = await store.transaction(async (tx) => {
        const current = await tx.readRun(id)
        if (!current || isFinal(current) || current.state === 'ending') {
          throw new SandboxError('run_ended', `run ${id} has ended (${current?.state ?? 'unknown'})`)
        }
        return tx.insertTurn({ id: turnId, runId: id, state: 'queued', prompt, final })
      })
      active.get(id)?.notifyTurn()
      return { id: turn.id, runId: id, state: turn.state }
    },
    async cancel(caller, id) {
      await end(caller, id)
      return reread(id)
    },
    destroySandbox: end,
  }
}
