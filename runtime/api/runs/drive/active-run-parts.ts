import type { AuditTrail } from '../audit-trail.ts'
import type { Approvals } from '../gates/approvals.ts'
import type { Capacity } from '../queue/await-capacity.ts'

/** What drivers share. */
export type ActiveRunParts = {
  readonly audit: AuditTrail
  readonly approvals: Approvals
  readonly capacity: Capacity
}
