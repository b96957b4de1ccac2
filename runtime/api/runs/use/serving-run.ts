import { delay, unlessAborted, withTimeout } from '../../../kit/deadline.ts'
import { SandboxError } from '../../../kit/errors.ts'
import type { RunRow } from '../../../store/store.ts'
import type { RunDeps } from '../deps.ts'
import type { ActiveRun } from '../drive/active-run.ts'
import type { ActiveRuns } from '../drive/active-runs.ts'
import { attachmentOf } from '../launch/attach.ts'
import { clientFor } from '../launch/configuration.ts'
import type { LaunchedSandbox } from '../launch/launched-sandbox.ts'
import { hasEnded, isFinal, requireRun } from '../run-view.ts'
import type { Caller } from '../service.ts'

/** The sandbox of a run while it is used: by its driver's own connection, or by one of this process's own. */
export type SandboxUse = Pick<LaunchedSandbox, 'client'> & {
  readonly run: RunRow
  readonly isolation: LaunchedSandbox['sandbox']['isolation']
  /** Informs the driver about a command whose row is stored. */
  notifyCommand(commandId: string): void
  /** To be called when the use is over. */
  done(): Promise<void>
}

/** As long as a launch may take. */
const SERVING_TIMEOUT_MS = 150_000
const LOCATE_TIMEOUT_MS = 20_000
const LOOK_AGAIN_MS = 200

/** Finds the sandbox of a run that serves; a run that has ended or waits for its upload has none. */
export function servingRunFinder(deps: RunDeps, active: ActiveRuns) {
  const { store } = deps
  return async (caller: Caller, id: string): Promise<SandboxUse> => {
    const run = await requireRun(store, caller, id)
    const driven = active.get(id)
    if (driven) return ownUse(driven)
    requireSandboxSoon(run)
    const serving = await untilServing(deps, active, id)
    return 'serving' in serving ? ownUse(serving) : useOfAnother(deps, serving)
  }
}

function requireSandboxSoon(run: RunRow): void {
  const { id, state } = run
  if (isFinal(run)) throw hasEnded(id, run)
  if (state === 'suspended' || state === 'suspending')
    throw new SandboxError('run_not_ready', `run ${id} is ${state} and has no sandbox: resume it first`)
  if (state === 'waiting_upload') throw new SandboxError('run_not_ready', `run ${id} is ${state}`)
}

async function ownUse(driven: ActiveRun): Promise<SandboxUse> {
  if (driven.isSuspending)
    throw new SandboxError('run_not_ready', `run ${driven.run.id} is being suspended: resume it first`)
  const { client, sandbox } = await servingSoon(driven)
  driven.sign()
  return {
    client,
    run: driven.run,
    isolation: sandbox.isolation,
    notifyCommand: (commandId) => driven.notifyCommand(commandId),
    done: async () => driven.sign(),
  }
}

/** The setup of a run may take longer than a request can wait. */
const servingSoon = (driven: ActiveRun) => {
  const timeout = withTimeout(SERVING_TIMEOUT_MS)
  return unlessAborted(driven.serving, timeout).catch((error: unknown) => {
    if (!timeout.aborted) throw error
    throw new SandboxError(
      'run_not_ready',
      `run ${driven.run.id} has no sandbox that serves yet. It may run its setup commands: follow its events, and try again.`,
    )
  })
}

/** The run as soon as another process serves it, or its driver as soon as this process starts it. */
async function untilServing({ store }: RunDeps, active: ActiveRuns, id: string): Promise<RunRow | ActiveRun> {
  for (const signal = withTimeout(SERVING_TIMEOUT_MS); ; await delay(LOOK_AGAIN_MS, signal)) {
    const driven = active.get(id)
    if (driven) return driven
    const run = await store.readRun(id)
    if (!run || isFinal(run) || run.state === 'ending' || run.state === 'suspended')
      throw new SandboxError('run_ended', `run ${id} has ended`)
    if (run.state === 'running' || run.state === 'waiting') return run
  }
}

async function useOfAnother(deps: RunDeps, run: RunRow): Promise<SandboxUse> {
  const { shared } = deps.provider
  if (!shared) throw new SandboxError('run_not_ready', `run ${run.id} is ${run.state}`)
  const { claim: _claim, ...attachment } = await attachmentOf(deps, run, withTimeout(LOCATE_TIMEOUT_MS))
  const located = await shared.locate(attachment)
  const client = clientFor(deps, run, located)
  const sign = () =>
    deps.store.transaction(async (tx) => {
      await tx.changeRun(run.id, { usedAt: deps.clock().toISOString() })
      tx.announce(run.id)
    })
  await sign()
  return {
    client,
    run,
    isolation: located.isolation,
    // The commit of its row has informed the driver.
    notifyCommand: () => undefined,
    done: async () => {
      await client.close()
      await sign()
    },
  }
}
