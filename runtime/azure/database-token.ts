import type { Log } from '../kit/log.ts'
import { HeldCredential } from './held-credential.ts'
import type { WorkloadIdentity } from './workload-identity.ts'

/** The resource for which Azure Database for PostgreSQL takes tokens. */
const DATABASE_SCOPE = 'https://ossrdbms-aad.database.windows.net/.default'
/** All attempts to get one token together: a connection waits for it. */
const TOKEN_BUDGET_MS = 8_000

/** The password of each new connection: a token of the identity, requested again when it is near its end. */
export function databaseToken(identity: WorkloadIdentity, log: Log): () => Promise<string> {
  const read = async () => {
    const { readAccessToken } = await import('./azure-clients.ts')
    const { retryWithin } = await import('./retry-within.ts')
    return retryWithin(TOKEN_BUDGET_MS, (signal) => readAccessToken(identity, DATABASE_SCOPE, signal))
  }
  const held = new HeldCredential({ read, onValue: () => undefined, log })
  return () => held.fetch()
}
