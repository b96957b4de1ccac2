import { readFile } from 'node:fs/promises'
import { type EgressPolicy, EgressPolicyError, loadEgressPolicy } from '../../policies/agent/egress/load.ts'
import { messageOf, SandboxError } from '../kit/errors.ts'
import type { Log } from '../kit/log.ts'
import type { SandboxProvider } from '../sandboxes/provider.ts'
import type { Store } from '../store/store.ts'
import { assets } from './assets.ts'
import type { ApiConfig } from './config.ts'
import type { Credentials } from './credentials/credentials.ts'
import { LocalEgress } from './egress/local-egress.ts'
import { createNetworkRules } from './egress/network-rules.ts'
import { ReportWriter } from './egress/report-writer.ts'
import { createRunCredentials } from './egress/run-credentials.ts'
import { createTrust } from './egress/trust.ts'
import { withEgress } from './egress/with-egress.ts'
import type { DeploymentKeys } from './keys/deployment-keys.ts'
import { createAuditTrail } from './runs/audit-trail.ts'

type Around = {
  readonly store: Store
  readonly keys: DeploymentKeys
  readonly credentials: Credentials
  readonly redact: (text: string) => string
  readonly log: Log
}

/** Gives sandboxes on this machine an egress proxy. In a cluster, network policies restrict them. */
export async function composeEgress(
  config: ApiConfig,
  provider: SandboxProvider,
  { store, keys, credentials, redact, log }: Around,
): Promise<SandboxProvider> {
  if (provider.name !== 'local') return provider
  const policy = await readPolicy(config)
  refuseUnknownCredentials(policy, credentials)
  const rules = createNetworkRules(policy)
  const writer = new ReportWriter({
    store,
    audit: createAuditTrail(keys),
    redact,
    clock: () => new Date(),
    log,
  })
  const trust = await createTrust(keys.derive('egress-ca'), config.egressRootsFile)
  const ofRuns = createRunCredentials(credentials, keys.derive('placeholder'))
  const egress = new LocalEgress({ store, rules, trust, credentials: ofRuns, writer, log })
  return withEgress(provider, egress)
}

/** A destination with a credential that does not exist could not be used. */
function refuseUnknownCredentials({ classes }: EgressPolicy, credentials: Credentials): void {
  const entries = [...classes.agent, ...classes.command]
  const unknown = entries.find(({ credential }) => credential !== undefined && !credentials.has(credential))
  if (unknown === undefined) return
  throw new SandboxError(
    'invalid_config',
    `AGENTWEAVER_EGRESS_FILE: the entry of ${unknown.host} names the credential ${unknown.credential}, which AGENTWEAVER_CREDENTIALS_FILE does not list`,
  )
}

async function readPolicy({ egressFile }: ApiConfig): Promise<EgressPolicy> {
  if (egressFile === undefined) return assets.egressPolicy()
  const refuse = (cause: unknown): never => {
    throw new SandboxError('invalid_config', `AGENTWEAVER_EGRESS_FILE: ${messageOf(cause)}`, { cause })
  }
  const text = await readFile(egressFile, 'utf8').catch(refuse)
  try {
    return loadEgressPolicy(text, egressFile)
  } catch (error) {
    return error instanceof EgressPolicyError ? refuse(error) : Promise.reject(error)
  }
}
