import type { UserSecret } from '../../../contracts/secrets.ts'
import { retryWithin } from '../../azure/retry-within.ts'
import type { WorkloadIdentity } from '../../azure/workload-identity.ts'
import { SandboxError } from '../../kit/errors.ts'
import type { UserCredentialRow } from '../../store/service-rows.ts'
import { userCredentialSecretName } from '../keys/user-secret-name.ts'

type Of = Pick<UserCredentialRow, 'owner' | 'kind' | 'target'>

/**
 * The vault of users' credentials. This service may write and delete secrets, and not read them: the egress proxy and
 * AgentHost read them by their names.
 */
export interface UserVault {
  /** Writes a new version of the owner's secret and returns its id. */
  write(of: Of, value: string): Promise<string>
  /** The newest version of the owner's secret is disabled afterwards, and does not contain the value. */
  disable(of: Of): Promise<void>
  /** Disables a version that was written for a change that failed. */
  undo(of: Of): Promise<void>
  /** Deletes all versions. The vault keeps them, unreadable, for its retention. */
  delete(of: Of): Promise<void>
  secretOf(of: Of, version: string): UserSecret
}

/** Time for all attempts of one change. The caller waits for it. */
const CHANGE_BUDGET_MS = 15_000

/** Content of a disabled version. Nobody can read it. */
const REMOVED = 'removed'

interface Parts {
  readonly identity: WorkloadIdentity
  readonly vaultUrl: string
  readonly nameKey: Uint8Array
  readonly budgetMs?: number
}

export function createUserVault({ nameKey, budgetMs = CHANGE_BUDGET_MS, ...place }: Parts): UserVault {
  const nameOf = (of: Of) => userCredentialSecretName(nameKey, of)
  const write = async (of: Of, value: string, isEnabled: boolean) => {
    const { writeSecret } = await import('../../azure/azure-clients.ts')
    return retryWithin(budgetMs, (signal) =>
      writeSecret(place, { name: nameOf(of), value, isEnabled }, signal),
    )
  }
  return {
    secretOf: (of, version) => ({ name: nameOf(of), version }),
    write: (of, value) => write(of, value, true).catch(explain('Nothing was stored')),
    disable: async (of) => {
      await write(of, REMOVED, false).catch(explain('Your credential is still set'))
    },
    undo: async (of) => {
      await write(of, REMOVED, false).catch(explain('The value that you sent is still in the vault'))
    },
    delete: async (of) => {
      const { deleteSecret } = await import('../../azure/azure-clients.ts')
      const remove = (signal: AbortSignal) => deleteSecret(place, nameOf(of), signal)
      await retryWithin(budgetMs, remove).catch(explain('The credential is still in the vault'))
    },
  }
}

/** Adds what the failure means for the caller. The messages contain no name of a secret. */
const explain =
  (effect: string) =>
  (error: unknown): never => {
    if (!(error instanceof SandboxError)) throw error
    const remedy = REMEDIES[error.code] ?? 'Try again.'
    const message = `The vault of users' credentials did not accept the change: ${error.message}. ${effect}. ${remedy}`
    throw new SandboxError(error.code, message, { cause: error })
  }

const REMEDIES: Readonly<Record<string, string>> = {
  conflict:
    'The vault still has the deleted secret of an earlier credential of yours. An operator can recover or purge it (docs/credentials.md).',
  credential_forbidden:
    'An operator must give the identity of the API the role that writes into this vault (docs/credentials.md).',
}

const MARK = 'vault:'

/** What the store has instead of the encrypted value of a credential that is in the vault: the version of the secret. */
export const inVault = (version: string): string => `${MARK}${version}`

/** The version of the secret. Undefined if the store itself has the value. */
export const vaultVersionOf = ({ sealed }: Pick<UserCredentialRow, 'sealed'>): string | undefined =>
  sealed.startsWith(MARK) ? sealed.slice(MARK.length) : undefined
