import { CONFIGURE_LIMITS } from '../../../../contracts/limits.ts'
import type { AgentHostClient } from '../../../agent-host-client/client.ts'
import { delay, withTimeout } from '../../../kit/deadline.ts'
import { SandboxError } from '../../../kit/errors.ts'
import { present } from '../../../kit/present.ts'
import type { StoredCheckpoint, StoredWorkspace } from '../../../store/checkpoint.ts'
import type { RunChange, RunRow, Store, Transaction } from '../../../store/store.ts'
import { storeWithin } from '../admit/storage-limit.ts'
import { type SavedWorkspace, saveWorkspace } from '../checkpoints/save-workspace.ts'
import type { RunDeps } from '../deps.ts'
import { whileHeld } from '../held-run.ts'
import { egressDigestOf } from '../use/egress-digest.ts'

const CHECKPOINT_TIMEOUT_MS = 120_000

/**
 * Saves the agent session and, unless it is a folder of the user, the workspace outside the sandbox. Follows every turn
 * and precedes every release.
 */
export async function checkpoint(
  deps: Pick<RunDeps, 'store' | 'clock' | 'limits' | 'networks'>,
  run: RunRow,
  client: AgentHostClient,
): Promise<void> {
  const saved = await saveParts(deps, run, { client })
  await whileHeld(deps.store, run, async (tx, current) => {
    const facts = await promote(tx, current, { saved, at: deps.clock().toISOString() })
    await tx.changeRun(run.id, facts)
  })
}

export type SavedParts = {
  /** The sandbox, and its last event that was committed before it was read. */
  readonly position: Pick<StoredCheckpoint, 'generation' | 'hostSequence'>
  readonly session?: string
  readonly workspace?: SavedWorkspace
  readonly egressDigest?: string
}

type SaveDeps = Pick<RunDeps, 'store' | 'limits' | 'networks'>

/**
 * Stores the parts of a checkpoint. They have no effect before `promote`, and are deleted a day later without it. A folder of
 * the user is not copied.
 */
export async function saveParts(
  deps: SaveDeps,
  run: RunRow,
  { client, signal = withTimeout(CHECKPOINT_TIMEOUT_MS) }: Partial<From> & Pick<From, 'client'>,
): Promise<SavedParts> {
  const [store, common] = await beginSave(deps, run)
  const session = run.kind === 'agent' ? await saveSession(store, run, { client, signal }) : undefined
  const workspace =
    run.workspace.kind === 'path' ? undefined : await saveWorkspace({ store, run, client, signal })
  return { ...common, ...present({ session, workspace }) }
}

/** Stores the workspace alone, of a run whose agent has not begun. */
export async function saveFiles(deps: SaveDeps, run: RunRow, { client, signal }: From): Promise<SavedParts> {
  const [store, common] = await beginSave(deps, run)
  return { ...common, workspace: await saveWorkspace({ store, run, client, signal }) }
}

/** What each checkpoint has, and the store for its parts. */
async function beginSave(deps: SaveDeps, run: RunRow): Promise<[Store, SavedParts]> {
  const current = (await deps.store.readRun(run.id)) ?? run
  const { generation, hostSequence } = current
  const egressDigest = egressDigestOf(deps.networks, current)
  const common = { position: { generation, hostSequence }, ...present({ egressDigest }) }
  return [await storeWithin(deps, run.owner), common]
}

type From = { readonly client: AgentHostClient; readonly signal: AbortSignal }

async function saveSession(store: Store, { owner }: RunRow, { client, signal }: From): Promise<string> {
  const content = { owner, maxBytes: CONFIGURE_LIMITS.maxSessionBytes }
  const { sha256 } = await store.writeContent(content, await settledSession(client, signal))
  return sha256
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

type Saved = { readonly saved: SavedParts; readonly at: string }

/** Puts the saved parts in force, all in one commit. Returns the changes for the row of the run. */
export async function promote(
  tx: Transaction,
  current: RunRow,
  { saved, at }: Saved,
): Promise<Pick<RunChange, 'checkpoint' | 'checkpointAt'>> {
  const { position, session, workspace, egressDigest } = saved
  await tx.commitCheckpoint(current.id, {
    ...position,
    owner: current.owner,
    policyVersion: current.policyVersion,
    at,
    contents: [...(session === undefined ? [] : [session]), ...(workspace?.contents ?? [])],
    ...present({ session }),
    ...(workspace && { workspace: storedWorkspace(workspace) }),
  })
  const [turn] = await tx.listTurns(current.id, ['sent'])
  const afterTurn = (await tx.lastEndedTurn(current.id))?.ordinal ?? 0
  return {
    checkpointAt: at,
    checkpoint: { sequence: current.lastSequence, afterTurn, ...present({ turnId: turn?.id, egressDigest }) },
  }
}

const storedWorkspace = ({ contents: _contents, ...workspace }: SavedWorkspace): StoredWorkspace => workspace
