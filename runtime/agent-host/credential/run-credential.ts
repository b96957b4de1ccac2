import type { ConfigureRequest, Credential } from '../../../contracts/configure.ts'
import { type Held, HeldCredential } from '../../azure/held-credential.ts'
import { retryWithin } from '../../azure/retry-within.ts'
import { SandboxError } from '../../kit/errors.ts'
import type { Log } from '../../kit/log.ts'
import type { AzureSettings } from './azure-settings.ts'

/** Time for one read, including its retries. */
const READ_BUDGET_MS = 10_000

export interface RunCredential {
  /** The current value; undefined if the run has no credential. */
  fetch(): Promise<string | undefined>
}

export type RunCredentialDeps = {
  /** Undefined if this AgentHost has no Azure identity. */
  readonly azure: AzureSettings | undefined
  /** Called with every value before the agent gets it, so that the redactor knows it first. */
  readonly onValue: (value: string) => void
  readonly log: Log
  /** The sources can be reached only after the configuration, so the credential is read on first use. @default false */
  readonly isReadOnUse?: boolean
  /** @default 10 s */
  readonly budgetMs?: number
  readonly now?: () => number
}

/**
 * Reads the credential once. Throws if it cannot be read: the run must not silently continue without one. With
 * `isReadOnUse`, the first turn fails instead.
 */
export async function openRunCredential(
  { credential }: Pick<ConfigureRequest, 'credential'>,
  deps: RunCredentialDeps,
): Promise<RunCredential> {
  const read = readerOf(credential, deps)
  if (read === undefined) return { fetch: async () => undefined }
  const { onValue, log, now, isReadOnUse = false } = deps
  const held = new HeldCredential({ read, onValue, log, ...(now && { now }) })
  if (!isReadOnUse) await held.fetch()
  return { fetch: () => held.fetch() }
}

type Reader = () => Promise<Held>

function readerOf(credential: Credential, deps: RunCredentialDeps): Reader | undefined {
  switch (credential.kind) {
    case 'token':
      return async () => ({ value: credential.token })
    case 'keyVault':
      return secretReader(credential.secretName, deps)
    case 'none':
      return undefined
  }
}

function secretReader(name: string, { azure, budgetMs = READ_BUDGET_MS }: RunCredentialDeps): Reader {
  if (azure?.vaultUrl === undefined) throw unconfigured('a vault to read credentials from')
  const place = { identity: azure.identity, vaultUrl: azure.vaultUrl }
  return async () => {
    const { readSecret } = await loadClients()
    return retryWithin(budgetMs, (signal) => readSecret(place, { name }, signal))
  }
}

/** Loaded on demand: the SDKs cost 10 MB and 55 ms of CPU, which a sandbox in standby does not need. */
const loadClients = () => import('../../azure/azure-clients.ts')

const unconfigured = (what: string) =>
  new SandboxError('credential_unavailable', `this AgentHost is not configured with ${what}`)
