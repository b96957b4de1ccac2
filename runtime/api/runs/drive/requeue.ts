import type { CallDecision } from '../../../../contracts/decisions.ts'
import type { ErrorCode } from '../../../../contracts/errors.ts'
import type { RunRow, Transaction } from '../../../store/store.ts'
import type { RunDeps } from '../deps.ts'
import { whileHeld } from '../held-run.ts'
import { callsSince } from '../launch/preface.ts'
import { transition } from '../machine/transition.ts'
import { closeOpen, type FinishParts } from './finish.ts'

/** A run whose sandboxes are lost this often without a finished turn ends. */
const MAX_LOSSES = 3

const WITH_SANDBOX: ReadonlySet<RunRow['state']> = new Set(['starting', 'running', 'waiting', 'suspending'])

export type Loss = { readonly code: ErrorCode; readonly message: string }

/**
 * Lets a run whose sandbox is gone continue from its last checkpoint. Returns its new state: `queued`, or `suspended` if a
 * person must look first, because a person had approved a call whose effect the checkpoint does not have. Undefined if
 * the run cannot continue: it then ends with the loss.
 */
export async function requeueLost(
  deps: RunDeps,
  parts: FinishParts,
  { run, loss }: { readonly run: RunRow; readonly loss: Loss },
): Promise<'queued' | 'suspended' | undefined> {
  const { store, clock, redactText } = deps
  const known = await callsSince(store, run.id, (await store.readRun(run.id))?.checkpoint?.sequence ?? 0)
  let attempts = 0
  return whileHeld(store, run, async (tx, current) => {
    attempts += 1
    if (attempts > 1 && (current.state === 'queued' || current.state === 'suspended')) return current.state
    if (!isResumable(current)) return undefined
    const acted = await callsThatActed(tx, current, new Set(known.map(({ callId }) => callId)))
    const canRestart =
      current.checkpoint !== undefined || current.workspace.kind === 'path' || acted.length === 0
    if (!canRestart) return undefined
    const at = clock().toISOString()
    // Calls that the lost sandbox has not announced again stay as the checkpoint has them.
    const isUntouched = current.carriedCalls.length > 0 && acted.length === 0
    const message = redactText(loss.message)
    if (!isUntouched) {
      await parts.approvals.supersedeAll(tx, run.id, 'the sandbox was lost')
      await closeOpen(tx, current, { audit: parts.audit, at, why: 'the sandbox was lost' })
    }
    await tx.appendEvents(run.id, [
      { event: { type: 'run.interrupted', data: { code: loss.code, message } } },
    ])
    const facts = { losses: current.losses + 1, ...(!isUntouched && { carriedCalls: [] }) }
    if (!isUntouched && (await someoneApproved(tx, run.id, acted))) {
      const waiting = { for: 'resume', since: at } as const
      await transition(tx, current, {
        event: { kind: 'sandbox_lost_unsure' },
        facts: { ...facts, waiting, holder: null },
      })
      return 'suspended'
    }
    await transition(tx, current, { event: { kind: 'sandbox_lost' }, facts })
    return 'queued'
  })
}

const isResumable = ({ kind, state, ending, losses }: RunRow): boolean =>
  kind === 'agent' && WITH_SANDBOX.has(state) && ending === undefined && losses + 1 < MAX_LOSSES

/** Calls that were released and whose effect the checkpoint does not have. */
async function callsThatActed(
  tx: Transaction,
  { id, carriedCalls }: RunRow,
  since: ReadonlySet<string>,
): Promise<string[]> {
  const calls = await tx.listCalls(id, ['released', 'ended'])
  return calls
    .filter(
      ({ callId, state }) => (state === 'released' || since.has(callId)) && !carriedCalls.includes(callId),
    )
    .filter(({ decision }) => ACTED.has((decision as CallDecision | undefined)?.outcome ?? 'release'))
    .map(({ callId }) => callId)
}

const ACTED: ReadonlySet<CallDecision['outcome']> = new Set(['release', 'answer'])

async function someoneApproved(tx: Transaction, runId: string, acted: readonly string[]): Promise<boolean> {
  const approved = await tx.listApprovals(runId, { state: 'approved' })
  return approved.some(({ callId }) => acted.includes(callId))
}
