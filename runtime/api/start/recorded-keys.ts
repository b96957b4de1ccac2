import type { Store } from '../../store/store.ts'
import { creationRecord } from '../people/api-keys.ts'
import type { AuditTrail } from '../runs/audit-trail.ts'
import type { KeyStore } from './first-api-key.ts'

/** Inserts API keys together with an audit record, in one transaction. */
export const recordedKeys = (store: Store, audit: AuditTrail): KeyStore => ({
  readApiKey: (hash) => store.readApiKey(hash),
  countApiKeys: () => store.countApiKeys(),
  insertApiKey: (row) =>
    store.transaction(async (tx) => {
      await tx.insertApiKey(row)
      // The first key of a store is created by the service, not by a person.
      await audit.append(tx, '', [creationRecord(row, 'agentweaver')])
    }),
})
