import { access, constants } from 'node:fs/promises'
import { type TokenCredential, WorkloadIdentityCredential } from '@azure/identity'
import { SecretClient } from '@azure/keyvault-secrets'
import type { ErrorCode } from '../../contracts/errors.ts'
import { SECRET_VERSION } from '../../contracts/secrets.ts'
import { SandboxError } from '../kit/errors.ts'
import { ResponseObserver, type VaultChange } from './azure-fault.ts'
import type { Held } from './held-credential.ts'
import type { ProxyAddress, WorkloadIdentity } from './workload-identity.ts'

/** SDK retries are off, because `retryWithin` has one budget for all steps. A redirect could leak a token. */
const pipeline = (
  observer: ResponseObserver,
  server: 'vault' | 'token endpoint',
  proxyOptions: ProxyAddress | undefined,
) => ({
  ...(proxyOptions && { proxyOptions }),
  retryOptions: { maxRetries: 0 },
  redirectOptions: { maxRetries: 0 },
  additionalPolicies: [{ policy: observer.policy(server), position: 'perRetry' as const }],
})

/**
 * A credential for one scope in its own tenant. A vault's challenge names the resource and tenant of the token. The SDK
 * rejects foreign domains; this also rejects every other resource and tenant.
 *
 * Created for every attempt, because the SDK caches a failed token request for a minute.
 */
function identityFor(identity: WorkloadIdentity, scope: string, observer: ResponseObserver): TokenCredential {
  const { clientId, tenantId, authority, tokenFile, proxy } = identity
  const credential = new WorkloadIdentityCredential({
    clientId,
    tenantId,
    tokenFilePath: tokenFile,
    authorityHost: authority,
    // The operator configures the authority, so no request to a discovery endpoint is needed.
    disableInstanceDiscovery: true,
    ...pipeline(observer, 'token endpoint', proxy),
  })
  return {
    getToken: async (scopes, { tenantId: tenant = tenantId, ...options } = {}) => {
      const isOurs = [scopes].flat().every((asked) => asked === scope) && tenant === tenantId
      if (!isOurs)
        throw new SandboxError('credential_unavailable', 'the vault asked for a token that is not for it')
      await assertReadable(tokenFile)
      return credential.getToken(scope, options)
    },
  }
}

const assertReadable = (tokenFile: string): Promise<void> =>
  access(tokenFile, constants.R_OK).catch(() => {
    throw new SandboxError('credential_unavailable', 'the projected token of this pod cannot be read')
  })

/** Characters that an HTTP header allows. A trailing line break is the most common mistake. */
const PRINTABLE = /^[\x21-\x7e]{1,16384}$/

/** The resource of a vault: `https://name.vault.azure.net` belongs to `https://vault.azure.net`. */
const scopeOf = (vaultUrl: string) => `https://${new URL(vaultUrl).hostname.replace(/^[^.]+\./, '')}/.default`

export type VaultPlace = { readonly identity: WorkloadIdentity; readonly vaultUrl: string }

/** A secret, and the version to read. @default the newest version */
export type SecretPlace = { readonly name: string; readonly version?: string | undefined }

/** One attempt of a change. */
export type ChangeAttempt = { readonly signal: AbortSignal; readonly change?: VaultChange }

/** Runs one call of the SDK. Throws the errors of `ResponseObserver.classify`. */
async function callVault<T>(
  { identity, vaultUrl }: VaultPlace,
  call: (client: SecretClient) => Promise<T>,
  change?: VaultChange,
): Promise<T> {
  const observer = new ResponseObserver(change)
  const credential = identityFor(identity, scopeOf(vaultUrl), observer)
  const client = new SecretClient(vaultUrl, credential, pipeline(observer, 'vault', identity.proxy))
  return call(client).catch((error: unknown) => {
    // Without a cause: errors of the SDK hold the request, and so the secret's name, its value and a token.
    throw observer.classify(error)
  })
}

/** Reads a secret. Throws the errors of `ResponseObserver.classify`. */
export async function readSecret(
  place: VaultPlace,
  { name, version }: SecretPlace,
  signal: AbortSignal,
): Promise<Held> {
  const options = { abortSignal: signal, ...(version !== undefined && { version }) }
  const { value = '', properties } = await callVault(place, (client) => client.getSecret(name, options))
  const expiresAtMs = properties.expiresOn?.getTime()
  if (typeof value !== 'string' || !PRINTABLE.test(value))
    throw new SandboxError('credential_absent', 'the secret in the vault is not a valid token')
  if (expiresAtMs !== undefined && expiresAtMs <= Date.now()) {
    throw new SandboxError('credential_absent', 'the secret in the vault has expired')
  }
  return { value, ...(expiresAtMs !== undefined && { expiresAtMs }) }
}

/** Writes a new version of a secret and returns its id. Throws the errors of `ResponseObserver.classify`. */
export async function writeSecret(
  place: VaultPlace,
  { name, value, isEnabled }: { readonly name: string; readonly value: string; readonly isEnabled: boolean },
  { signal, change }: ChangeAttempt,
): Promise<string> {
  const options = { abortSignal: signal, enabled: isEnabled }
  const { properties } = await callVault(place, (client) => client.setSecret(name, value, options), change)
  const { version } = properties
  if (version !== undefined && SECRET_VERSION.test(version)) return version
  throw new SandboxError('credential_unavailable', 'the response of the vault was invalid')
}

/**
 * Deletes all versions of a secret. Until the vault purges them, it keeps them, and no caller can read them. Returns the time of
 * the purge, also if the secret was deleted before; `absent` if there is none; and `unknown` if this identity may not read the
 * properties of deleted secrets.
 */
export async function deleteSecret(
  place: VaultPlace,
  name: string,
  { signal, change }: ChangeAttempt,
): Promise<Date | 'absent' | 'unknown'> {
  const options = { abortSignal: signal }
  try {
    const deletion = await callVault(place, (client) => client.beginDeleteSecret(name, options), change)
    return deletion.getResult()?.scheduledPurgeDate ?? 'unknown'
  } catch (error) {
    if (!hasCode(error, 'credential_absent')) throw error
    return callVault(place, (client) => client.getDeletedSecret(name, options)).then(
      ({ scheduledPurgeDate = 'unknown' as const }) => scheduledPurgeDate,
      (failure: unknown) => {
        if (hasCode(failure, 'credential_absent')) return 'absent' as const
        if (hasCode(failure, 'credential_forbidden')) return 'unknown' as const
        throw failure
      },
    )
  }
}

const hasCode = (error: unknown, code: ErrorCode): boolean =>
  error instanceof SandboxError && error.code === code

/** Requests a token of the pod's identity. Throws the errors of `ResponseObserver.classify`. */
export async function readAccessToken(
  identity: WorkloadIdentity,
  scope: string,
  signal: AbortSignal,
): Promise<Held> {
  const observer = new ResponseObserver()
  const credential = identityFor(identity, scope, observer)
  const token = await credential.getToken(scope, { abortSignal: signal }).catch((error) => {
    throw observer.classify(error)
  })
  if (!token) throw new SandboxError('credential_unavailable', 'the token endpoint returned no token')
  return { value: token.token, expiresAtMs: token.expiresOnTimestamp }
}
