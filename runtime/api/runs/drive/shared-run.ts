import type { CallDecision } from '../../../../contracts/decisions.ts'
import type { Log } from '../../../kit/log.ts'
import type { RunRow, Store } from '../../../store/store.ts'

/** Calls back, one at a time, whenever another process may have written something of a run. */
export function followOthers(
  { store, log }: { readonly store: Store; readonly log: Log },
  runId: string,
  look: () => Promise<void>,
): () => void {
  let isLooking = false
  let isAsked = false
  const lookOn = async () => {
    isLooking = true
    while (isAsked) {
      isAsked = false
      await look().catch((error: unknown) =>
        log.warn('what others wrote of a run could not be read', { error }),
      )
    }
    isLooking = false
  }
  return store.onEvents(runId, (committed) => {
    // Commits of this process bring their events, and the code that made them has informed the driver.
    if (committed !== undefined) return
    isAsked = true
    if (!isLooking) void lookOn()
  })
}

/** Changes by other processes that a driver has not seen. */
export type Heard = {
  readonly run: RunRow | undefined
  readonly commands: readonly string[]
  readonly decided: readonly { readonly requestId: string; readonly decision: CallDecision }[]
}

export async function hearOthers(store: Store, runId: string, pending: ReadonlySet<string>): Promise<Heard> {
  return store.transaction(async (tx) => {
    const run = await tx.readRun(runId)
    const commands = (await tx.listRunningCommands(runId)).map(({ id }) => id)
    const decided: Heard['decided'][number][] = []
    for (const requestId of pending) {
      const approval = await tx.readApproval(runId, requestId)
      if (!approval || approval.state === 'pending') continue
      const call = await tx.readCall(runId, approval.callId)
      if (call?.decision) decided.push({ requestId, decision: call.decision })
    }
    return { run, commands, decided }
  })
}
