import type { ErrorCode } from '../../../../contracts/errors.ts'
import type { CallRow } from '../../../store/call-row.ts'
import type { RunChange, RunRow, Transaction, TurnRow } from '../../../store/store.ts'
import type { RunDeps } from '../deps.ts'
import { requireHeld } from '../held-run.ts'
import { transition } from '../machine/transition.ts'
import { closeOpen, type Ending, type FinishParts, isLoss } from './finish.ts'
import { endingAfterTurn } from './turn-ending.ts'

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
  const told = { code: loss.code, message: redactText(loss.message) }
  /** The run as the earlier attempt found it, and the state that it gave the run. */
  let before: { readonly run: RunRow; readonly state: 'queued' | 'suspended' } | undefined
  return store.transaction(async (tx) => {
    const found = await tx.readRun(run.id)
    // The earlier attempt was committed, and its answer was lost. The sandbox is still this driver's to give back.
    if (before && found && wasRequeued(before.run, found)) return before.state
    const current = requireHeld(run, found)
    if (!canGoOn(current, loss)) return undefined
    // It had no sandbox that could be lost.
    if (!WITH_SANDBOX.has(current.state)) return 'queued'
    const acted = await hasActed(tx, current)
    if (await isOver(tx, current, acted)) return undefined
    const state = await goOn(tx, parts, { run: current, loss: told, acted, at: clock().toISOString() })
    before = { run: current, state }
    return state
  })
}

/**
 * How a run ends that does not continue after a loss. If its last turn had ended the work, that turn decides, unless its
 * effects are lost with the sandbox.
 */
export async function endingAfterLoss(
  deps: Pick<RunDeps, 'store'>,
  run: RunRow,
  loss: Ending,
): Promise<Ending> {
  if (!isLoss(loss)) return loss
  const turn = await deps.store.transaction(async (tx) => {
    const last = await lastTurnOf(tx, run)
    return last && (run.workspace.kind === 'path' || !(await hasActed(tx, run))) ? last : undefined
  })
  const end = turn?.end && { turnId: turn.id, ...turn.end }
  const ending = turn && end && (await endingAfterTurn(deps, run, { turn, end }))
  return ending ?? loss
}

/** The last turn of a run that has no other turn to work on, and that waits for none. */
async function lastTurnOf(tx: Transaction, run: RunRow): Promise<TurnRow | undefined> {
  if ((await tx.listTurns(run.id, ['queued', 'sent'])).length > 0) return undefined
  const turn = await tx.lastEndedTurn(run.id)
  return turn && (turn.final || !run.interactive) ? turn : undefined
}

type Lost = {
  readonly run: RunRow
  readonly loss: Loss
  /** Whether a call was released whose effect the checkpoint does not have. */
  readonly acted: boolean
  readonly at: string
}

async function goOn(
  tx: Transaction,
  parts: FinishParts,
  { run, loss, acted, at }: Lost,
): Promise<'queued' | 'suspended'> {
  // Calls that the lost sandbox has not announced again stay as the checkpoint has them.
  const isUntouched = run.carriedCalls.length > 0 && !acted
  if (!isUntouched) await closeAll(tx, parts, { run, at })
  await tx.appendEvents(run.id, [{ event: { type: 'run.interrupted', data: loss } }])
  const carriedCalls = isUntouched ? (run.checkpoint?.carriedCalls ?? run.carriedCalls) : []
  const facts = { losses: run.losses + 1, carriedCalls }
  return requeue(tx, run, { facts, at, needsPerson: await someoneApproved(tx, run) })
}

async function closeAll(
  tx: Transaction,
  { approvals, audit }: FinishParts,
  { run, at }: { readonly run: RunRow; readonly at: string },
): Promise<void> {
  const why = 'the sandbox was lost'
  await approvals.supersedeAll(tx, run.id, why)
  await closeOpen(tx, run, { audit, at, why })
}

type Requeued = { readonly facts: RunChange; readonly at: string; readonly needsPerson: boolean }

async function requeue(
  tx: Transaction,
  run: RunRow,
  { facts, at, needsPerson }: Requeued,
): Promise<'queued' | 'suspended'> {
  if (!needsPerson) {
    await transition(tx, run, { event: { kind: 'sandbox_lost' }, facts })
    return 'queued'
  }
  const waiting = { for: 'resume', since: at } as const
  const event = { kind: 'sandbox_lost_unsure' } as const
  await transition(tx, run, { event, facts: { ...facts, waiting, holder: null } })
  return 'suspended'
}

/** Whether there is nothing to continue: no work left, or nothing to continue it from. */
const isOver = async (tx: Transaction, run: RunRow, acted: boolean): Promise<boolean> =>
  (acted && !isKept(run)) || (await lastTurnOf(tx, run)) !== undefined

/** Whether anything of the work outlives the sandbox. */
const isKept = ({ checkpoint, workspace }: RunRow) => checkpoint !== undefined || workspace.kind === 'path'

/** Whether the run was queued or suspended since, also if another process has started it again by now. */
const wasRequeued = (before: RunRow, { losses, generation }: RunRow): boolean =>
  losses > before.losses || generation > before.generation

/** States of a run that has not begun to end, and that a loss of its sandbox can interrupt. */
const INTERRUPTIBLE: ReadonlySet<RunRow['state']> = new Set(['queued', 'pending_capacity', ...WITH_SANDBOX])

const canGoOn = (run: RunRow, { code }: Loss): boolean =>
  run.kind === 'agent' &&
  INTERRUPTIBLE.has(run.state) &&
  run.ending === undefined &&
  (run.losses + 1 < MAX_LOSSES || !WITH_SANDBOX.has(run.state)) &&
  !(run.endsWithService && code === 'api_restarted')

/** The last event of the run whose effects the checkpoint has. */
const savedThrough = ({ checkpoint }: RunRow): number => checkpoint?.sequence ?? 0

/** Whether a call was released whose effect the checkpoint does not have. */
async function hasActed(tx: Transaction, run: RunRow): Promise<boolean> {
  const { id, carriedCalls } = run
  const released = await tx.listCalls(id, ['released'])
  // Enough to find one that is not carried.
  const ended = await tx.listReleasedCalls(id, { after: savedThrough(run), limit: carriedCalls.length + 1 })
  return [...released, ...ended].some(({ callId }) => !carriedCalls.includes(callId))
}

/** Whether a person approved such a call. */
async function someoneApproved(tx: Transaction, run: RunRow): Promise<boolean> {
  const isUnsaved = (call: CallRow | undefined) =>
    call !== undefined && (call.state === 'released' || call.sequence > savedThrough(run))
  for (const { callId } of await tx.listApprovals(run.id, { state: 'approved' })) {
    if (run.carriedCalls.includes(callId)) continue
    if (isUnsaved(await tx.readCall(run.id, callId))) return true
  }
  return false
}
