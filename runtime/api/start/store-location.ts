import { databaseToken } from '../../azure/database-token.ts'
import { SandboxError } from '../../kit/errors.ts'
import type { Log } from '../../kit/log.ts'
import type { StoreLocation } from '../../store/open-store.ts'
import type { ApiConfig } from '../config.ts'

/** Where the store is, and how the service logs in to it. */
export function storeLocation(
  { store, identity }: Pick<ApiConfig, 'store' | 'identity'>,
  log: Log,
): StoreLocation {
  if (store.kind === 'sqlite' || store.auth === 'url') return store
  if (!identity)
    throw new SandboxError('invalid_config', 'AGENTWEAVER_DATABASE_AUTH=entra needs an Azure identity')
  return { kind: 'postgres', url: store.url, password: databaseToken(identity, log) }
}
