import { SandboxError } from '../../../kit/errors.ts'
import type { RunRow } from '../../../store/store.ts'
import type { AuditTrail } from '../audit-trail.ts'
import type { RunDeps } from '../deps.ts'
import { whileHeld } from '../held-run.ts'
import { BatchCommitter } from '../ingest/commit-batch.ts'
import { attach, discardClaim } from '../launch/attach.ts'
import type { LaunchedSandbox } from '../launch/launch.ts'
import { type Capacity, launchWhenRoom } from '../queue/await-capacity.ts'
import { type Position, readPosition } from './read-position.ts'
import { giveUpSuspension } from './suspend.ts'

/** States of a run that has no sandbox yet. */
const NOT_LAUNCHED: ReadonlySet<RunRow['state']> = new Set(['queued', 'pending_capacity', 'starting'])

type Parts = { readonly audit: AuditTrail; readonly capacity: Capacity }

export type Obtained = {
  readonly launched: LaunchedSandbox
  readonly committer: BatchCommitter
  /** The last event of the sandbox that is not read again. */
  readonly after: number
  /** Where the run is, if another driver had this sandbox before. */
  readonly position?: Position
}

/** Gets the sandbox of a run: the one that another driver had, or a new one. */
export async function obtainSandbox(
  deps: RunDeps,
  { audit, capacity }: Parts,
  { run, signal }: { readonly run: RunRow; readonly signal: AbortSignal },
): Promise<Obtained> {
  const { shared } = deps.provider
  if (shared && !NOT_LAUNCHED.has(run.state)) {
    const launched = await attach({ ...deps, shared }, run, signal)
    const after = run.hostSequence - run.hostReread
    const committer = new BatchCommitter(deps, audit, { run, after })
    const position = await readPosition(deps, run)
    if (run.state === 'suspending') await whileHeld(deps.store, run, giveUpSuspension)
    return { launched, committer, after, position }
  }
  // A launch that another process did not finish is repeated. Nothing that its sandbox did was committed.
  if (run.state === 'starting') await discardClaim(deps, run)
  if (run.ending !== undefined) throw new SandboxError('run_ended', 'the run ended before it was launched')
  const launched = await launchWhenRoom({ ...deps, capacity }, run, signal)
  const committer = new BatchCommitter(deps, audit, { run, after: 0 })
  return { launched, committer, after: 0 }
}
