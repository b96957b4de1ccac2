import type { CallDecision } from '../../../../contracts/decisions.ts'
import type { AgentHostClient } from '../../../agent-host-client/client.ts'
import { SandboxError } from '../../../kit/errors.ts'
import type { Log } from '../../../kit/log.ts'
import type { RunRow, Transaction } from '../../../store/store.ts'
import type { RunDeps } from '../deps.ts'
import { requireHeld, whileHeld } from '../held-run.ts'
import { transition } from '../machine/transition.ts'
import { promote, saveParts } from './checkpoint.ts'

/**
 * Saves a run that waits, so that its sandbox can be given back. Returns the new state: `suspended`, or `queued` if the
 * awaited decision or turn arrived during the save. Throws `conflict` if the run does not wait, and the error of a
 * failed checkpoint; the run then keeps its sandbox and waits.
 */
export async function suspend(
  deps: Pick<RunDeps, 'store' | 'clock' | 'limits'>,
  run: RunRow,
  client: AgentHostClient,
): Promise<'suspended' | 'queued'> {
  const { store, clock } = deps
  await whileHeld(store, run, async (tx, current) => {
    // An earlier attempt was committed, and its answer was lost.
    if (current.state === 'suspending') return
    refuseEnding(current)
    await transition(tx, current, { event: { kind: 'suspension_begun' } })
  })
  const saved = await saveParts(deps, run, { client }).catch(async (error: unknown) => {
    await whileHeld(store, run, (tx, current) => giveUpSuspension(tx, current))
    throw error
  })
  /** What the earlier attempt made of the run. */
  let before: { readonly generation: number; readonly state: 'suspended' | 'queued' } | undefined
  return store.transaction(async (tx) => {
    const found = await tx.readRun(run.id)
    // The earlier attempt was committed, and its answer was lost. The sandbox is still this driver's to give back.
    if (before && found && isWithout(before.generation, found)) return before.state
    const current = requireHeld(run, found)
    refuseEnding(current)
    const at = clock().toISOString()
    const facts = await promote(tx, current, { saved, at })
    const asked = new Set((await tx.listApprovals(run.id)).map(({ callId }) => callId))
    const open = await tx.listCalls(run.id, ['open', 'released', 'refused'])
    // Others have ended in the sandbox, and only their outcome has not arrived.
    const calls = open.filter(({ callId, actor }) => actor === undefined && asked.has(callId))
    const carriedCalls = calls.map(({ callId }) => callId)
    const checkpoint = { sequence: current.lastSequence, ...facts.checkpoint, carriedCalls }
    const waitingFor = current.waiting?.for ?? 'resume'
    await tx.appendEvents(run.id, [
      { event: { type: 'run.suspended', data: { waitingFor, checkpointAt: at } } },
    ])
    await transition(tx, current, {
      event: { kind: 'checkpoint_saved' },
      facts: { ...facts, checkpoint, carriedCalls },
    })
    const isDecided = calls.some(({ decision }) => isFinal(decision))
    const hasTurn = (await tx.listTurns(run.id, ['queued'])).length > 0
    if (!isDecided && !hasTurn) {
      await tx.changeRun(run.id, { holder: null })
      before = { generation: current.generation, state: 'suspended' }
    } else {
      await transition(tx, { ...current, state: 'suspended' }, { event: { kind: 'resumption_requested' } })
      before = { generation: current.generation, state: 'queued' }
    }
    return before.state
  })
}

/** Whether the run has no sandbox of this generation any more, also if another process has started it again by now. */
const isWithout = (of: number, { state, generation }: RunRow): boolean =>
  generation > of || state === 'suspended' || state === 'queued'

export const works = ({ id }: RunRow) =>
  new SandboxError('conflict', `run ${id} works; only a run that waits can be suspended`)

function refuseEnding({ id, ending }: RunRow): void {
  if (ending !== undefined) throw new SandboxError('conflict', `run ${id} is to end`)
}

const isFinal = (decision: CallDecision | undefined) =>
  decision !== undefined && decision.outcome !== 'pending'

/** A driver that finds a suspension that its predecessor did not finish keeps the sandbox. */
export async function giveUpSuspension(tx: Transaction, current: RunRow): Promise<void> {
  if (current.state === 'suspending') await transition(tx, current, { event: { kind: 'suspension_failed' } })
}

/**
 * Logs that a run that waits was not suspended. It is no defect if the run went on in the meantime, for example because
 * another process stored a decision.
 */
export function logUnsuspended(log: Log, error: unknown): void {
  if (error instanceof SandboxError && error.code === 'conflict')
    log.info('the run was not suspended, because it goes on', { reason: error.message })
  else log.warn('the run was not suspended', { error })
}
