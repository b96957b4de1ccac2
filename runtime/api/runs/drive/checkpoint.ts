import { CONFIGURE_LIMITS, FILE_LIMITS } from '../../../../contracts/limits.ts'
import type { AgentHostClient } from '../../../agent-host-client/client.ts'
import { delay, withTimeout } from '../../../kit/deadline.ts'
import { SandboxError } from '../../../kit/errors.ts'
import { present } from '../../../kit/present.ts'
import type { CheckpointBlob, RunChange, RunRow, Transaction } from '../../../store/store.ts'
import type { RunDeps } from '../deps.ts'
import { whileHeld } from '../held-run.ts'

const CHECKPOINT_TIMEOUT_MS = 120_000

/**
 * Saves the agent session and, unless it is a folder of the user, the workspace outside the sandbox. Follows every turn
 * and precedes every release.
 */
export async function checkpoint(
  deps: Pick<RunDeps, 'store' | 'clock'>,
  run: RunRow,
  client: AgentHostClient,
): Promise<void> {
  const saved = await saveParts(deps, run, client)
  await whileHeld(deps.store, run, async (tx, current) => {
    const facts = await promote(tx, current, { saved, at: deps.clock().toISOString() })
    await tx.changeRun(run.id, facts)
  })
}

/** The parts of a run that a checkpoint has. A folder of the user is not copied. */
const partsOf = ({ kind, workspace }: RunRow): CheckpointBlob[] => [
  ...(kind === 'agent' ? (['session'] as const) : []),
  ...(workspace.kind === 'path' ? [] : (['workspace'] as const)),
]

/** Stores the new parts. The last checkpoint stays in force until `promote`. */
export async function saveParts(
  { store }: Pick<RunDeps, 'store'>,
  run: RunRow,
  client: AgentHostClient,
): Promise<readonly CheckpointBlob[]> {
  const signal = withTimeout(CHECKPOINT_TIMEOUT_MS)
  const parts = partsOf(run)
  for (const name of parts) {
    const isSession = name === 'session'
    const content = isSession ? await settledSession(client, signal) : await client.getWorkspace(signal)
    const maxBytes = isSession ? CONFIGURE_LIMITS.maxSessionBytes : FILE_LIMITS.maxArchiveBytes
    await store.writeBlob({ runId: run.id, name: `next-${name}`, maxBytes }, content)
  }
  return parts
}

/** A call that waits can be exported as soon as the sandbox knows that it waits. */
const SETTLES_WITHIN_MS = 5_000
const LOOK_AGAIN_MS = 100

async function settledSession(client: AgentHostClient, signal: AbortSignal) {
  for (const giveUpAt = performance.now() + SETTLES_WITHIN_MS; ; await delay(LOOK_AGAIN_MS, signal)) {
    try {
      return await client.getSession(signal)
    } catch (error) {
      const isUnsettled = error instanceof SandboxError && error.code === 'conflict'
      if (!isUnsettled || performance.now() > giveUpAt) throw error
    }
  }
}

type Saved = { readonly saved: readonly CheckpointBlob[]; readonly at: string }

/** Puts the saved parts in force, all in one commit. Returns what the row of the run says of them. */
export async function promote(
  tx: Transaction,
  current: RunRow,
  { saved, at }: Saved,
): Promise<Pick<RunChange, 'checkpoint' | 'checkpointAt'>> {
  for (const name of saved) await tx.promoteBlob(current.id, name)
  const [turn] = await tx.listTurns(current.id, ['sent'])
  return {
    checkpointAt: at,
    checkpoint: { sequence: current.lastSequence, ...present({ turnId: turn?.id }) },
  }
}
