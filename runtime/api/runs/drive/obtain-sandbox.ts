import { SandboxError } from '../../../kit/errors.ts'
import type { RunRow } from '../../../store/store.ts'
import type { AuditTrail } from '../audit-trail.ts'
import type { RunDeps } from '../deps.ts'
import { whileHeld } from '../held-run.ts'
import { BatchCommitter } from '../ingest/commit-batch.ts'
import { attach } from '../launch/attach.ts'
import { launch } from '../launch/launch.ts'
import type { LaunchedSandbox } from '../launch/launched-sandbox.ts'
import type { Requested } from '../launch/request.ts'
import { isLack, waitForRoom } from '../queue/no-room.ts'
import { type Position, readPosition } from './read-position.ts'
import { giveUpSuspension } from './suspend.ts'

type Wanted = {
  readonly run: RunRow
  /** Absent if another driver had the sandbox that the run has. */
  readonly request: Requested | undefined
  readonly signal: AbortSignal
}

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
  { audit }: { readonly audit: AuditTrail },
  { run, request, signal }: Wanted,
): Promise<Obtained> {
  const { shared } = deps.provider
  if (shared && !request) {
    const launched = await attach({ ...deps, shared }, run, signal)
    const after = run.hostSequence - run.hostReread
    const committer = new BatchCommitter(deps, audit, { run, after })
    const position = await readPosition(deps, run)
    if (run.state === 'suspending') await whileHeld(deps.store, run, giveUpSuspension)
    return { launched, committer, after, position }
  }
  if (!request) throw new SandboxError('sandbox_lost', 'the run has no sandbox any more')
  if (run.ending !== undefined) throw new SandboxError('run_ended', 'the run ended before it was launched')
  const launched = await launch(deps, run, { request, signal }).catch(async (error: unknown) => {
    if (!isLack(error)) throw error
    signal.throwIfAborted()
    throw await waitForRoom(deps, run, error)
  })
  const committer = new BatchCommitter(deps, audit, { run, after: 0 })
  return { launched, committer, after: 0 }
}
