import type { AuditTrail } from '../audit-trail.ts'
import type { RunDeps } from '../deps.ts'
import type { RunViews } from '../queue/queue-view.ts'
import type { RunService } from '../service.ts'
import { eraseOwner } from './erase-owner.ts'
import { exportOwner } from './export-owner.ts'

/** Export and erasure of what the store has of an owner. */
export const createOwnerCalls = (
  deps: RunDeps & { readonly views: RunViews },
  audit: AuditTrail,
): Pick<RunService, 'exportData' | 'eraseData'> => ({
  exportData: (caller, owner) => exportOwner(deps, audit, { caller, owner }),
  eraseData: (caller, owner) => eraseOwner(deps, audit, { caller, owner }),
})
