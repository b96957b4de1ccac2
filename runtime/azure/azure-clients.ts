import { access, constants } from 'node:fs/promises'
import { type TokenCredential, WorkloadIdentityCredential } from '@azure/identity'
import { SecretClient } from '@azure/keyvault-secrets'
import { SandboxError } from '../kit/errors.ts'
import { Witness } from './azure-fault.ts'
import type { Held } from './held-credential.ts'
import type { WorkloadIdentity } from './workload-identity.ts'

/** Retries are ours, with one budget for all steps; a redirect would carry a token or an assertion elsewhere. */
const pipeline = (witness: Witness, server: 'vault' | 'token endpoint') => ({
  retryOptions: { maxRetries: 0 },
  redirectOptions: { maxRetries: 0 },
  additionalPolicies: [{ policy: witness.policy(server), position: 'perRetry' as const }],
})

/**
 * The identity, for one scope of its own tenant. A vault names the resource and the tenant that it wants a token
 * for: the SDK refuses foreign domains, and this refuses all but the one resource that the vault belongs to.
 *
 * Made anew for every attempt: the SDK remembers a failed token request for a minute and repeats its failure.
 */
function identityFor(identity: WorkloadIdentity, scope: string, witness: Witness): TokenCredential {
  const { clientId, tenantId, authority, tokenFile } = identity
  const credential = new WorkloadIdentityCredential({
    clientId,
    tenantId,
    tokenFilePath: tokenFile,
    authorityHost: authority,
    // The authority is the operator's own setting: nobody else is to be asked whether it is one.
    disableInstanceDiscovery: true,
    ...pipeline(witness, 'token endpoint'),
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

/** What fits into a header: a line break behind a value is the commonest mistake of all. */
const PRINTABLE = /^[\x21-\x7e]{1,16384}$/

/** The resource of a vault: `https://name.vault.azure.net` belongs to `https://vault.azure.net`. */
const scopeOf = (vaultUrl: string) => `https://${new URL(vaultUrl).hostname.replace(/^[^.]+\./, '')}/.default`

/** The newest version of one secret of one vault. Throws as `Witness.judge` says. */
export async function readSecret(
  { identity, vaultUrl }: { readonly identity: WorkloadIdentity; readonly vaultUrl: string },
  name: string,
  signal: AbortSignal,
): Promise<Held> {
  const witness = new Witness()
  const credential = identityFor(identity, scopeOf(vaultUrl), witness)
  const client = new SecretClient(vaultUrl, credential, pipeline(witness, 'vault'))
  const { value = '', properties } = await client.getSecret(name, { abortSignal: signal }).catch((error) => {
    // Without a cause: errors of the SDK hold the request, and so the secret's name and a token.
    throw witness.judge(error)
  })
  const expiresAtMs = properties.expiresOn?.getTime()
  if (typeof value !== 'string' || !PRINTABLE.test(value))
    throw new SandboxError('credential_absent', 'what lies in the vault is no token')
  if (expiresAtMs !== undefined && expiresAtMs <= Date.now()) {
    throw new SandboxError('credential_absent', 'the secret in the vault has expired')
  }
  return { value, ...(expiresAtMs !== undefined && { expiresAtMs }) }
}

/** A token of the pod's identity for one resource. Throws as `Witness.judge` says. */
export async function readAccessToken(
  identity: WorkloadIdentity,
  scope: string,
  signal: AbortSignal,
): Promise<Held> {
  const witness = new Witness()
  const credential = identityFor(identity, scope, witness)
  const token = await credential.getToken(scope, { abortSignal: signal }).catch((error) => {
    throw witness.judge(error)
  })
  if (!token) throw new SandboxError('credential_unavailable', 'the token endpoint gave no token')
  return { value: token.token, expiresAtMs: token.expiresOnTimestamp }
}
