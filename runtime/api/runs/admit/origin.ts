import type { StartRun } from '../../../../contracts/api.ts'
import type { SandboxSettingsPatch } from '../../../../contracts/policy.ts'
import type { AuditDraft } from '../../../audit/chain.ts'
import { SandboxError } from '../../../kit/errors.ts'
import { present } from '../../../kit/present.ts'
import type { CallRow } from '../../../store/call-row.ts'
import type { CheckpointPart, RunOrigin } from '../../../store/checkpoint.ts'
import type { RunRow, Store, Transaction } from '../../../store/store.ts'
import { wasReleased } from '../launch/preface.ts'
import { isFinal, requireRun } from '../run-view.ts'
import type { Caller } from '../service.ts'

/** A run from whose last checkpoint a new run begins, and the parts of the checkpoint that the new run gets. */
export type Origin = { readonly run: RunRow; readonly parts: readonly CheckpointPart[] }

const MAX_TOLD_CALLS = 40

/** The row of a run that the caller may copy. Operators see the runs of others, but only an owner copies a run. */
export async function requireOrigin(store: Store, caller: Caller, id: string): Promise<RunRow> {
  const run = await requireRun(store, caller, id)
  if (run.owner === caller.owner) return run
  throw new SandboxError('forbidden', `only its owner can start a run from ${id}`)
}

/**
 * Reads and locks the origin, so that its checkpoint stays the same until the transaction ends. Throws if there is nothing
 * to begin from; the message names the next step.
 */
export async function lockOrigin(tx: Transaction, { run, parts }: Origin): Promise<RunRow> {
  const current = await tx.readRun(run.id)
  if (!current) throw new SandboxError('not_found', `there is no run ${run.id}`)
  const problem = (parts.includes('workspace') ? noFiles(current, parts) : undefined) ?? noCheckpoint(current)
  if (problem) throw problem
  return current
}

function noFiles({ id, workspace }: RunRow, parts: Origin['parts']): SandboxError | undefined {
  if (workspace.kind !== 'path') return undefined
  const next = parts.includes('session')
    ? 'Name the files to begin with: --workspace DIR, or "workspace" in the request.'
    : `Start the run on the folder: --workspace ${workspace.path}.`
  const fetch = `If the run worked on a copy, bring its commits into the folder first: agentweaver fetch ${id}.`
  return new SandboxError(
    'conflict',
    `${id} works on the folder ${workspace.path} of the service's machine, so its checkpoints have no files. ${next} ${fetch}`,
  )
}

function noCheckpoint(run: RunRow): SandboxError | undefined {
  const { id, kind, state, checkpointAt } = run
  if (checkpointAt !== undefined) return undefined
  if (isFinal(run))
    return new SandboxError(
      'conflict',
      `${id} has ended (${state}) without a checkpoint. Start a new run instead.`,
    )
  const next =
    kind === 'agent'
      ? `The first one is saved when its first turn ends, or earlier if the turn takes minutes: follow it with "agentweaver logs -f ${id}" and try again.`
      : `It is saved when the sandbox is destroyed: "agentweaver sandbox rm ${id}".`
  return new SandboxError('run_not_ready', `${id} is ${state} and has no checkpoint yet. ${next}`)
}

/** What the new run records about its origin. */
export const originOf = (run: RunRow, parts: readonly CheckpointPart[]): RunOrigin => ({
  runId: run.id,
  checkpointAt: run.checkpointAt ?? run.createdAt,
  copied: [...parts],
  sequence: run.checkpoint?.sequence ?? run.lastSequence,
})

/**
 * A run that begins from another one has at most the settings of that run. Its budgets and whether it must report an
 * outcome belong to the task: the request may set them again, within the current settings.
 */
export function settingsOfOrigin(
  { run: { settings } }: Origin,
  { budgets: requested }: Pick<StartRun, 'budgets'>,
): SandboxSettingsPatch {
  const {
    direct: _direct,
    require_outcome: _outcome,
    setup_commands: _setup,
    budgets,
    ...inherited
  } = settings
  return { ...inherited, ...(requested === undefined && present({ budgets })) }
}

/** Copies the checkpoint and returns the new run. It does not depend on its origin any more. */
export async function copyOrigin(tx: Transaction, origin: RunRow, run: RunRow): Promise<RunRow> {
  const parts = run.source?.copied ?? []
  await tx.copyCheckpoint(parts, { from: origin.id, to: run.id })
  if (!parts.includes('session')) return run
  // No event of the new run is part of the checkpoint.
  const facts = {
    checkpoint: { sequence: 0, afterTurn: 0 },
    ...present({ checkpointAt: run.source?.checkpointAt }),
  }
  await tx.changeRun(run.id, facts)
  return { ...run, ...facts }
}

/** The record of the lineage, in the chain of the new run: the chain of the origin may be sealed. */
export const beginning = (
  { id, owner, policyVersion }: RunRow,
  source: RunOrigin,
  at: string,
): AuditDraft => ({
  kind: 'outcome',
  runId: id,
  callId: id,
  actor: `person:${owner}`,
  tool: source.copied.includes('session') ? 'run.fork' : 'run.copy',
  params: source,
  policyVersion,
  outcome: `began with ${source.copied.join(' and ')} of ${source.runId}, checkpoint of ${source.checkpointAt}, event ${source.sequence}`,
  at,
})

/** The first prompt of a new run: the task, after a list of facts in the copied conversation that no longer hold. */
export async function firstPrompt(
  tx: Transaction,
  { task, workspace, source }: Pick<RunRow, 'task' | 'workspace' | 'source'>,
  origin: RunRow | undefined,
): Promise<string> {
  if (!origin || !source?.copied.includes('session')) return task
  const changes = [
    ...(await openTurn(tx, origin)),
    ...(workspace.kind === 'run'
      ? []
      : ['The workspace has other files than before: read a file again before you rely on it.']),
  ]
  return changes.length === 0 ? task : [...changes, 'The request:', '', task].join('\n')
}

/** Lists the calls that a conversation saved during a turn leaves open. */
async function openTurn(tx: Transaction, { id, checkpoint }: RunRow): Promise<string[]> {
  if (checkpoint?.turnId === undefined) return []
  const { carriedCalls = [], openCalls = [] } = checkpoint
  const open = await callsOf(tx, id, openCalls)
  const [waited, made] = [await callsOf(tx, id, carriedCalls), open.filter(wasReleased)]
  return [
    `This conversation is a copy of the run ${id}, made in the middle of a turn. That turn does not continue here.`,
    ...(waited.length === 0
      ? []
      : [
          `These calls waited for a person then: ${toolsOf(waited)}. They were not carried out here, and no decision about them counts here. Make such a call only if the request below needs it.`,
        ]),
    ...(made.length === 0
      ? []
      : [
          `These calls were carried out in ${id} after the copy was made: ${toolsOf(made)}. Their effects outside the workspace remain, and their effects on files are not here. Check before you repeat one.`,
        ]),
  ]
}

async function callsOf(tx: Transaction, runId: string, callIds: readonly string[]): Promise<CallRow[]> {
  const calls: CallRow[] = []
  for (const callId of callIds.slice(0, MAX_TOLD_CALLS)) {
    const call = await tx.readCall(runId, callId)
    if (call) calls.push(call)
  }
  return calls
}

const toolsOf = (calls: readonly CallRow[]) => calls.map(({ tool }) => JSON.stringify(tool)).join(', ')
