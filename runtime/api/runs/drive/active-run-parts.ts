import type { RunRow } from '../../../store/store.ts'
import type { AuditTrail } from '../audit-trail.ts'
import type { Approvals } from '../gates/approvals.ts'
import type { Capacity } from '../queue/await-capacity.ts'

/** What drivers share. */
export type ActiveRunParts = {
  readonly audit: AuditTrail
  readonly approvals: Approvals
  readonly capacity: Capacity
}

/** A run as its driver gets it. */
export type Begin = {
  readonly run: RunRow
  /** Settles when this process has stopped driving the run before. */
  readonly after?: Promise<void>
  /** Settles when the run has one of the places of this process. A run that is to end does not wait for it. */
  readonly place?: Promise<void>
}
