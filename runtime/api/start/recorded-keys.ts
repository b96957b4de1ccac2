import type { Store } from '../../store/store.ts'
import type { AuditTrail } from '../runs/audit-trail.ts'
import type { KeyStore } from './first-api-key.ts'

/** The API keys of a store; each new one is a record of the deployment's audit, in the same commit. */
export const recordedKeys = (store: Store, audit: AuditTrail): KeyStore => ({
  readApiKey: (hash) => store.readApiKey(hash),
  countApiKeys: () => store.countApiKeys(),
  insertApiKey: (row) =>
    store.transaction(async (tx) => {
      await tx.insertApiKey(row)
      await audit.append(tx, '', [
        {
          kind: 'key.created',
          runId: '',
          callId: row.id,
          // The key of a new store, which no person asked for.
          actor: 'agentweaver',
          tool: 'key.create',
          policyVersion: '',
          reasons: [`role ${row.role}`, `owner ${row.owner}`],
          at: row.createdAt,
        },
      ])
    }),
})
