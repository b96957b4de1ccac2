import { CONFIGURE_LIMITS, FILE_LIMITS } from '../../../../contracts/limits.ts'
import type { AgentHostClient } from '../../../agent-host-client/client.ts'
import { withTimeout } from '../../../kit/deadline.ts'
import type { RunRow } from '../../../store/store.ts'
import type { RunDeps } from '../deps.ts'

const CHECKPOINT_TIMEOUT_MS = 120_000

/**
 * Saves the agent session and, where it is not a folder of the user's own, the workspace outside the sandbox.
 * It follows every turn and precedes every release.
 */
export async function checkpoint(
  deps: Pick<RunDeps, 'store' | 'clock'>,
  run: RunRow,
  client: AgentHostClient,
): Promise<void> {
  const signal = withTimeout(CHECKPOINT_TIMEOUT_MS)
  const { store, clock } = deps
  if (run.kind === 'agent') {
    const blob = { runId: run.id, name: 'session', maxBytes: CONFIGURE_LIMITS.maxSessionBytes } as const
    await store.writeBlob(blob, await client.getSession(signal))
  }
  if (run.workspace.kind !== 'path') {
    const blob = { runId: run.id, name: 'workspace', maxBytes: FILE_LIMITS.maxArchiveBytes } as const
    await store.writeBlob(blob, await client.getWorkspace(signal))
  }
  await store.transaction((tx) => tx.changeRun(run.id, { checkpointAt: clock().toISOString() }))
}
