import type { RunRow } from '../../../store/store.ts'
import type { AuditTrail } from '../audit-trail.ts'
import type { Approvals } from '../gates/approvals.ts'
import type { Requested } from '../launch/request.ts'

/** What drivers share. */
export type ActiveRunParts = {
  readonly audit: AuditTrail
  readonly approvals: Approvals
}

/** A run as its driver gets it. */
export type Begin = {
  readonly run: RunRow
  /** Settles when this process has stopped driving the run before. */
  readonly after?: Promise<void>
  /** The request for a sandbox that was stored when the run was picked. */
  readonly request?: Requested
}
