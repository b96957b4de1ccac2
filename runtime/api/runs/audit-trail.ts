import { type AuditDraft, chainRecords, recordErasure, sealRun } from '../../audit/chain.ts'
import type { Transaction } from '../../store/store.ts'
import type { DeploymentKeys } from '../keys/deployment-keys.ts'

/** Writes audit records in the transaction of the change that they record, chained under the deployment's audit key. */
export function createAuditTrail(keys: DeploymentKeys) {
  const key = { keyId: keys.keyId, key: keys.derive('audit') }
  return {
    key,
    async append(tx: Transaction, runId: string, drafts: readonly AuditDraft[]): Promise<void> {
      if (drafts.length === 0) return
      const { rows, head } = chainRecords(await tx.auditHead(runId), drafts, key)
      await tx.appendAudit(rows, head)
    },
    /** A run's final head joins the deployment's chain. */
    async seal(tx: Transaction, runId: string, at: string): Promise<void> {
      const sealed = { runId, head: await tx.auditHead(runId), at }
      const { rows, head } = sealRun(sealed, await tx.auditHead(''), key)
      await tx.appendAudit(rows, head)
    },
    /** The run's final head stays in the deployment's chain, although its records are deleted. */
    async recordErasure(
      tx: Transaction,
      runId: string,
      { at, actor }: { at: string; actor: string },
    ): Promise<void> {
      const erased = { runId, head: await tx.auditHead(runId), at, actor }
      const { rows, head } = recordErasure(erased, await tx.auditHead(''), key)
      await tx.appendAudit(rows, head)
    },
  }
}

export type AuditTrail = ReturnType<typeof createAuditTrail>
