import { FINAL_STATES, type Run } from '../../../contracts/api.ts'
import type { RunSource } from '../../../contracts/events.ts'
import { SandboxError } from '../../kit/errors.ts'
import type { RunOrigin } from '../../store/checkpoint.ts'
import { QUEUED_STATES } from '../../store/queue.ts'
import type { RunRow, Store } from '../../store/store.ts'
import { type Access, requireAccess, seesRunOf } from '../people/rights.ts'
import { budgetUses } from './budgets/budget-uses.ts'
import type { Caller } from './service.ts'

/** States in which a run has a driver. Such a run has a sandbox, or is about to get one, and takes a place. */
export const DRIVEN = ['starting', 'running', 'waiting', 'suspending', 'ending'] as const

/** States of runs that wait for their first or next place. */
export const WAITING_FOR_PLACE = ['waiting_upload', ...QUEUED_STATES] as const

/** States of runs that are neither suspended nor ended. */
export const UNFINISHED = [...WAITING_FOR_PLACE, ...DRIVEN] as const

export const isFinal = (run: { state: Run['state'] }): boolean =>
  (FINAL_STATES as readonly string[]).includes(run.state)

export function hasEnded(id: string, run: Pick<RunRow, 'state' | 'kind'> | undefined): SandboxError {
  const how = run && isFinal(run) ? ` as ${run.state}` : ''
  const next = run?.kind === 'agent' ? ` To go on from its last checkpoint: agentweaver fork ${id} TASK` : ''
  return new SandboxError('run_ended', `run ${id} has ended${how}.${next}`)
}

/** Asked in a transaction that writes to a run on behalf of a person: the chain of an ended run is sealed. */
export function requireRunning(id: string, run: RunRow | undefined): RunRow {
  if (run && run.endedAt === undefined) return run
  throw new SandboxError('run_ended', `run ${id} has ended`)
}

/** What callers see of a run. */
export function toRun(row: RunRow): Run {
  const {
    agentSpec: _agent,
    settings: _settings,
    allowedHosts: _allowed,
    push: _push,
    policyVersion: _version,
    keyId: _key,
    hostSequence: _sequence,
    hostReread: _reread,
    holder: _holder,
    ending: _ending,
    usedAt: _used,
    activeMs: _active,
    checkpoint: _checkpoint,
    carriedCalls: _carried,
    losses: _losses,
    endsWithService: _ends,
    suspendAskedAt: _asked,
    usage: _usage,
    source,
    workspace,
    ...run
  } = row
  return {
    ...run,
    budgets: budgetUses(row),
    workspace: withoutSettings(workspace),
    ...(source && { source: toSource(source) }),
  }
}

function withoutSettings(workspace: RunRow['workspace']): Run['workspace'] {
  if (!('settings' in workspace)) return workspace
  const { settings: _settings, ...shown } = workspace
  return shown
}

const toSource = ({ runId, checkpointAt, copied }: RunOrigin): RunSource => ({
  runId,
  checkpointAt,
  copied,
})

/**
 * The row of a run that the caller may use in this way. `forbidden` if the caller may only see it; to everybody else it does
 * not exist.
 */
const runFor =
  (access: Access) =>
  async (store: Store, caller: Caller, id: string): Promise<RunRow> => {
    const run = await store.readRun(id)
    if (run && seesRunOf(caller, run.owner)) {
      requireAccess(caller, run.owner, access)
      return run
    }
    throw new SandboxError('not_found', `there is no ${id.startsWith('sbx_') ? 'sandbox' : 'run'} ${id}`)
  }

/** For everything that is not one of the reads and decisions below. */
export const requireRun = runFor('change')
export const requireRunToFollow = runFor('follow')
export const requireRunToRead = runFor('read')
export const requireRunToDecide = runFor('decide')
