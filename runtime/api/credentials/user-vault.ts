import type { UserSecret } from '../../../contracts/secrets.ts'
import type { VaultChange } from '../../azure/azure-fault.ts'
import { retryWithin } from '../../azure/retry-within.ts'
import type { WorkloadIdentity } from '../../azure/workload-identity.ts'
import { SandboxError } from '../../kit/errors.ts'
import { present } from '../../kit/present.ts'
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
  /**
   * Disables the secret: writes a newest version that is disabled and does not contain the value. Succeeds if the secret is deleted. If it
   * fails, the error contains `effect`, which describes the remaining state.
   */
  disable(of: Of, effect: string): Promise<void>
  /**
   * Deletes all versions. Until the vault purges them, it keeps them, and no caller can read them. Returns undefined if there is no
   * such secret. `wasSet`: the vault had the secret, so if it is gone, an earlier erasure has deleted it.
   */
  delete(of: Of, wasSet: boolean): Promise<SecretPurge | undefined>
  secretOf(of: Of, version: string): UserSecret
}

/** When the vault purges a deleted secret. */
export interface SecretPurge {
  readonly at: Date
  /** False if the vault did not report the time. Then `at` is the latest possible one. */
  readonly isExact: boolean
}

/** The longest time for which Azure keeps a deleted secret: https://learn.microsoft.com/azure/key-vault/general/soft-delete-overview. */
const MAX_RETENTION_MS = 90 * 86_400_000

/** Time for all attempts of one change. The caller waits for it. */
const CHANGE_BUDGET_MS = 15_000

/** Time for disabling a version that the vault may have. The caller has already waited for the change. */
const CLEAN_UP_BUDGET_MS = 4_000

/** A disabled version, which no caller can read. */
const REMOVED: Content = { value: 'removed', isEnabled: false }

const MAY_KEEP =
  'The value that you sent is not used, but the vault may keep it in an old version until your data is erased'
const MAY_HAVE = 'The value that you sent may be in the vault, and could not be disabled there'
const SET_AGAIN =
  'Set the credential again, or remove it if "agentweaver credential list" shows it. If you do neither, revoke the value at its server.'

type Content = { readonly value: string; readonly isEnabled: boolean }
type WriteOptions = { readonly withinMs?: number; readonly change?: VaultChange }

interface Parts {
  readonly identity: WorkloadIdentity
  readonly vaultUrl: string
  readonly nameKey: Uint8Array
  readonly budgetMs?: number
}

export function createUserVault({ nameKey, budgetMs = CHANGE_BUDGET_MS, ...place }: Parts): UserVault {
  const nameOf = (of: Of) => userCredentialSecretName(nameKey, of)
  const write = async (of: Of, content: Content, { withinMs = budgetMs, change }: WriteOptions = {}) => {
    const { writeSecret } = await import('../../azure/azure-clients.ts')
    return retryWithin(withinMs, (signal) =>
      writeSecret(place, { name: nameOf(of), ...content }, { signal, ...present({ change }) }),
    )
  }
  const disable = (of: Of, withinMs = budgetMs) =>
    write(of, REMOVED, { withinMs }).catch((error: unknown) => {
      // The secret was deleted in the meantime, so nothing can read any of its versions.
      if (!(error instanceof SandboxError) || error.code !== 'conflict') throw error
    })
  return {
    secretOf: (of, version) => ({ name: nameOf(of), version }),
    write: async (of, value) => {
      const change = { mayBeDone: false }
      try {
        return await write(of, { value, isEnabled: true }, { change })
      } catch (error) {
        if (!change.mayBeDone) return explain('Nothing was stored')(error)
        const isDisabled = await disable(of, Math.min(budgetMs, CLEAN_UP_BUDGET_MS)).then(
          () => true,
          () => false,
        )
        return isDisabled ? explain(MAY_KEEP)(error) : explain(MAY_HAVE, SET_AGAIN)(error)
      }
    },
    disable: async (of, effect) => {
      await disable(of).catch(explain(effect))
    },
    delete: async (of, wasSet) => {
      const { deleteSecret } = await import('../../azure/azure-clients.ts')
      const change = { mayBeDone: false }
      const remove = (signal: AbortSignal) => deleteSecret(place, nameOf(of), { signal, change })
      const found = await retryWithin(budgetMs, remove).catch(
        explain('The credential may still be in the vault'),
      )
      if (found instanceof Date) return { at: found, isExact: true }
      const isDeleted = change.mayBeDone || (wasSet && found === 'unknown')
      return isDeleted ? { at: new Date(Date.now() + MAX_RETENTION_MS), isExact: false } : undefined
    },
  }
}

/** Adds what the failure means for the caller. The messages contain no name of a secret. */
const explain =
  (effect: string, nextStep = 'Try again.') =>
  (error: unknown): never => {
    if (!(error instanceof SandboxError)) throw error
    const remedy = REMEDIES[error.code] ?? nextStep
    const message = `The vault of users' credentials did not confirm the change: ${error.message}. ${effect}. ${remedy}`
    throw new SandboxError(error.code, message, { cause: error })
  }

const REMEDIES: Readonly<Record<string, string>> = {
  conflict:
    'The vault still has the deleted secret of an earlier credential of yours. An operator can recover it (docs/credentials.md).',
  credential_forbidden:
    'An operator must give the identity of the API the role that writes into this vault (docs/credentials.md).',
}

const MARK = 'vault:'

/** What the store has instead of the encrypted value of a credential that is in the vault: the version of the secret. */
export const inVault = (version: string): string => `${MARK}${version}`

/** The version of the secret. Undefined if the store itself has the value. */
export const vaultVersionOf = ({ sealed }: Pick<UserCredentialRow, 'sealed'>): string | undefined =>
  sealed.startsWith(MARK) ? sealed.slice(MARK.length) : undefined
