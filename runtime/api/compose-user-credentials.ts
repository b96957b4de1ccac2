import { OF_EACH_OWNER } from '../../contracts/egress.ts'
import type { OwnToken } from '../agents/kind.ts'
import type { Log } from '../kit/log.ts'
import { EventRedactor } from '../redaction/event-redactor.ts'
import type { OwnerRedactors } from '../redaction/owner-redactors.ts'
import type { RunRow, Store } from '../store/store.ts'
import type { ComposedEgress } from './compose-egress.ts'
import type { ApiConfig } from './config.ts'
import { eraseSecrets } from './credentials/erase-secrets.ts'
import { GITHUB_TARGET } from './credentials/own-destinations.ts'
import { createSeal } from './credentials/sealed-value.ts'
import { createUserCredentialService } from './credentials/user-credential-service.ts'
import { UserCredentials } from './credentials/user-credentials.ts'
import { createUserVault, type SecretPurge } from './credentials/user-vault.ts'
import type { DeploymentKeys } from './keys/deployment-keys.ts'
import { createAuditTrail } from './runs/audit-trail.ts'

type Around = {
  readonly store: Store
  readonly redactors: OwnerRedactors
  readonly keys: DeploymentKeys
  readonly log: Log
}

/** The secrets of the deployment are redacted in every run and in the log. */
export const deploymentSecrets = ({ models }: Pick<ApiConfig, 'models'>): string[] =>
  [models.openaiApiKey, models.copilotToken].filter((secret) => secret !== undefined)

/** Redacts the secrets of the deployment and of the owner, and personal data if the run's settings say so. */
export function redactionOfRuns(redactors: OwnerRedactors) {
  type Of = Pick<RunRow, 'owner' | 'settings'>
  const redactorOf = ({ owner, settings }: Of) => redactors.of(owner, settings.redact_pii)
  return {
    openRedactor: (run: Of) => new EventRedactor(redactorOf(run)),
    redactText: redactors.text,
    redactResult: (text: string, run: Of) => redactorOf(run).text(text),
  }
}

/** The credentials that owners set, and the service with which they set them. */
export async function composeUserCredentials(
  { identity, userVaultUrl: vaultUrl }: Pick<ApiConfig, 'identity' | 'userVaultUrl'>,
  { store, redactors, keys, log }: Around,
) {
  const seal = createSeal({ key: keys.derive('user-credential'), keyId: keys.keyId })
  const vault =
    identity && vaultUrl !== undefined
      ? createUserVault({ identity, vaultUrl, nameKey: keys.derive('name') })
      : undefined
  const learn = (owner: string, value: string) => redactors.learn(owner, value)
  const now = () => new Date()
  const credentials = new UserCredentials({ store, seal, vault, learn, clock: now, log })
  const { stop } = await credentials.start()
  const placesOf = ({ modelProxy, hosts }: ComposedEgress, { models }: Pick<ApiConfig, 'models'>) => ({
    // Without hosts, no process inserts credentials.
    modelServer: modelProxy && hosts && models.openaiBaseUrl,
    hosts,
  })
  return {
    credentials,
    stop,
    /** Deletes the secrets of an owner whose data is erased. The rows still exist. */
    eraserFor(egress: ComposedEgress, config: Pick<ApiConfig, 'models'>) {
      const places = placesOf(egress, config)
      return async (owner: string): Promise<SecretPurge | undefined> =>
        vault && eraseSecrets({ store, vault, places }, owner)
    },
    /** What agents need to know of the credentials of their owners. */
    modelsOf({ models }: Pick<ApiConfig, 'models'>, isOperators: (id: string) => boolean) {
      const { openaiBaseUrl: server = '', modelCredential } = models
      const needsOwn = modelCredential === OF_EACH_OWNER.model && !isOperators(modelCredential)
      return {
        lacksModelKey: (owner: string) =>
          needsOwn && credentials.find(owner, OF_EACH_OWNER.model, server) === undefined,
        lacksGitHubToken: (owner: string) =>
          vault !== undefined && credentials.find(owner, 'github', GITHUB_TARGET) === undefined,
        /** For an agent that connects to GitHub itself. */
        gitHubTokenOf(owner: string): OwnToken | undefined {
          const found = credentials.find(owner, 'github', GITHUB_TARGET)
          if (!found) return undefined
          const onUse = () => credentials.noteUse(owner, found.credentialId)
          if (credentials.isInVault(owner, 'github', GITHUB_TARGET)) return { onUse }
          const token = credentials.valueOf(owner, 'github', GITHUB_TARGET)
          return token === undefined ? undefined : { token, onUse }
        },
      }
    },
    serviceFor(egress: ComposedEgress, config: ApiConfig) {
      const places = placesOf(egress, config)
      const { check } = egress
      const audit = createAuditTrail(keys)
      const isReadByAgentHost = config.hasUserVault && egress.agentRoot === undefined
      const deps = { store, audit, credentials, seal, vault, places, isReadByAgentHost, learn, check, now }
      return createUserCredentialService(deps)
    },
  }
}
