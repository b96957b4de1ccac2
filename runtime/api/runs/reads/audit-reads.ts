import { type AuditPage, DEPLOYMENT_CHAIN } from '../../../../contracts/audit.ts'
import { entryOf } from '../../../audit/entry.ts'
import { verifyDeployment } from '../../../audit/verify-deployment.ts'
import { SandboxError } from '../../../kit/errors.ts'
import { present } from '../../../kit/present.ts'
import type { AuditRow } from '../../../store/audit-rows.ts'
import { readsWholeAudit } from '../../people/rights.ts'
import type { AuditTrail } from '../audit-trail.ts'
import type { RunDeps } from '../deps.ts'
import { requireRunToRead } from '../run-view.ts'
import type { AuditQuery, Caller, RunService } from '../service.ts'

type AuditReads = Pick<RunService, 'readAudit' | 'readRunAudit' | 'verifyAudit'>

/** Users read the audit of their runs. Operators and auditors read the whole audit. */
export function createAuditReads(
  { store }: Pick<RunDeps, 'store'>,
  { key }: Pick<AuditTrail, 'key'>,
): AuditReads {
  const read = async (runId: string | undefined, { limit, ...filter }: AuditQuery) =>
    pageOf(await store.readAudit({ limit, ...present({ ...filter, runId }) }))
  return {
    async readAudit(caller, { run, ...query }) {
      requireWholeAudit(caller)
      return read(run === DEPLOYMENT_CHAIN ? '' : run, query)
    },
    async readRunAudit(caller, id, query) {
      await requireRunToRead(store, caller, id)
      return read(id, query)
    },
    async verifyAudit(caller, { run }) {
      requireWholeAudit(caller)
      return verifyDeployment(store, [key], run)
    },
  }
}

function requireWholeAudit(caller: Caller): void {
  if (readsWholeAudit(caller)) return
  throw new SandboxError(
    'forbidden',
    'Only an operator or an auditor reads the whole audit. Read the audit of a run of yours at /api/runs/{id}/audit.',
  )
}

const pageOf = ({ items, next }: { items: AuditRow[]; next?: string }): AuditPage => ({
  items: items.map(entryOf),
  ...present({ next }),
})
