import { HeldCredential } from '../../azure/held-credential.ts'
import type { WorkloadIdentity } from '../../azure/workload-identity.ts'
import { SandboxError } from '../../kit/errors.ts'
import type { Log } from '../../kit/log.ts'
import type { StoreLocation } from '../../store/open-store.ts'
import type { ApiConfig } from '../config.ts'

/** The resource for which Azure Database for PostgreSQL takes tokens. */
const DATABASE_SCOPE = 'https://ossrdbms-aad.database.windows.net/.default'
/** All attempts to get one token together: a connection waits for it. */
const TOKEN_BUDGET_MS = 8_000

/** Where the store is, and by what the database knows this service. */
export function storeLocation(
  { store, identity }: Pick<ApiConfig, 'store' | 'identity'>,
  log: Log,
): StoreLocation {
  if (store.kind === 'sqlite' || store.auth === 'url') return store
  if (!identity)
    throw new SandboxError('invalid_config', 'AGENTWEAVER_DATABASE_AUTH=entra needs an Azure identity')
  return { kind: 'postgres', url: store.url, password: databaseToken(identity, log) }
}

/** A token for each new connection; one that is near its end is asked for again. */
function databaseToken(identity: WorkloadIdentity, log: Log): () => Promise<string> {
  const read = async () => {
    const { readAccessToken } = await import('../../azure/azure-clients.ts')
    const { retryWithin } = await import('../../azure/retry-within.ts')
    return retryWithin(TOKEN_BUDGET_MS, (signal) => readAccessToken(identity, DATABASE_SCOPE, signal))
  }
  const held = new HeldCredential({ read, onValue: () => undefined, log })
  return () => held.fetch()
}
