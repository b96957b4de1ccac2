import type { Credential } from '../../../contracts/configure.ts'
import { SandboxError } from '../../kit/errors.ts'

/** The credential of a run, held in memory alone. Nothing is folded into `none`: what cannot be had is a fault. */
export function readCredential(credential: Credential): string | undefined {
  switch (credential.kind) {
    case 'none':
      return undefined
    case 'token':
      return credential.token
    case 'keyVault':
      throw new SandboxError(
        'credential_unavailable',
        'this AgentHost has no Key Vault to read a credential from',
      )
  }
}
