import type { Log } from '../kit/log.ts'
import { HeldCredential } from './held-credential.ts'
import type { WorkloadIdentity } from './workload-identity.ts'

/** The OAuth scope of Azure Database for PostgreSQL. */
const DATABASE_SCOPE = 'https://ossrdbms-aad.database.windows.net/.default'
/** Time for all attempts to get one token. A new connection waits for it. */
const TOKEN_BUDGET_MS = 8_000

/** Returns the password for a new connection: a token of the identity, refreshed before it expires. */
export function databaseToken(identity: WorkloadIdentity, log: Log): () => Promise<string> {
  const read = async () => {
    const { readAccessToken } = await import('./azure-clients.ts')
    const { retryWithin } = await import('./retry-within.ts')
    return retryWithin(TOKEN_BUDGET_MS, (signal) => readAccessToken(identity, DATABASE_SCOPE, signal))
  }
  const held = new HeldCredential({ read, onValue: () => undefined, log })
  return () => held.fetch()
}
