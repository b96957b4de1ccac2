import type { UserSecret } from '../../../contracts/secrets.ts'
import { retryWithin } from '../../azure/retry-within.ts'
import type { WorkloadIdentity } from '../../azure/workload-identity.ts'

/** Shorter than the time that a request waits for its credential. */
const READ_BUDGET_MS = 10_000

export interface UserVaultPlace {
  readonly identity: WorkloadIdentity
  readonly vaultUrl: string
}

/** Reads the credentials of users from their vault. Only the process that inserts credentials may. */
export const readerOfVault =
  (place: UserVaultPlace, budgetMs = READ_BUDGET_MS) =>
  async (secret: UserSecret): Promise<string> => {
    // Loaded on demand: most deployments have no vault.
    const { readSecret } = await import('../../azure/azure-clients.ts')
    const { value } = await retryWithin(budgetMs, (signal) => readSecret(place, secret, signal))
    return value
  }

export type ReadUserSecret = ReturnType<typeof readerOfVault>
