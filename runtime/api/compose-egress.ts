import { readFile } from 'node:fs/promises'
import { RequestedAgent } from '../../contracts/agents.ts'
import { CREDENTIAL_CHECK } from '../../contracts/credential-check.ts'
import { MODEL_BASE_PATH, type ModelRoute, OF_EACH_OWNER, PROXY_IDENTITY } from '../../contracts/egress.ts'
import { names } from '../../contracts/names.ts'
import { EGRESS_PROXY_PORT } from '../../contracts/ports.ts'
import { insertsGitHubToken } from '../../policies/agent/egress/github.ts'
import { type EgressPolicy, EgressPolicyError, loadEgressPolicy } from '../../policies/agent/egress/load.ts'
import { hasHost } from '../../policies/agent/egress/narrow.ts'
import { modelRouteOf } from '../agents/registry.ts'
import { runCheck } from '../credential-check/run-check.ts'
import { messageOf, SandboxError } from '../kit/errors.ts'
import type { Log } from '../kit/log.ts'
import { present } from '../kit/present.ts'
import type { SandboxProvider } from '../sandboxes/provider.ts'
import type { Store } from '../store/store.ts'
import { assets } from './assets.ts'
import type { ApiConfig } from './config.ts'
import { type CredentialCheck, createCredentialCheck } from './credentials/credential-check.ts'
import type { Credentials } from './credentials/credentials.ts'
import { withModelKey } from './credentials/model-key.ts'
import type { UserCredentials } from './credentials/user-credentials.ts'
import { NO_OWN_CREDENTIALS } from './credentials/user-credentials.ts'
import { serversOf } from './egress/agent-servers.ts'
import { ByteShares } from './egress/byte-shares.ts'
import { createClusterChecks } from './egress/cluster-checks.ts'
import { ClusterEgress } from './egress/cluster-egress.ts'
import { ControlHub } from './egress/control-hub.ts'
import { type ControlListenerOptions, serveEgressControl } from './egress/control-listener.ts'
import type { RouteOf, ServersOf } from './egress/control-state.ts'
import { LocalEgress } from './egress/local-egress.ts'
import { ModelBudgets } from './egress/model-budgets.ts'
import { type CredentialHosts, createNetworkRules, type NetworkRules } from './egress/network-rules.ts'
import { ReportWriter } from './egress/report-writer.ts'
import { createRunCredentials, type RunCredentials } from './egress/run-credentials.ts'
import { createTrust, type EgressTrust } from './egress/trust.ts'
import { withEgress } from './egress/with-egress.ts'
import type { DeploymentKeys } from './keys/deployment-keys.ts'
import { createAuditTrail } from './runs/audit-trail.ts'
import type { ModelProxy, RunDeps } from './runs/deps.ts'
import type { Restrictions } from './runs/restrictions/restrictions.ts'
import type { RunNetworks } from './runs/use/run-networks.ts'

type Around = {
  readonly store: Store
  readonly restrictions: Restrictions
  readonly keys: DeploymentKeys
  readonly credentials: Credentials
  readonly userCredentials: UserCredentials
  /** The hosts of the ceiling. Undefined if it names none. */
  readonly hosts: readonly string[] | undefined
  readonly redact: (text: string) => string
  readonly log: Log
}

export type ComposedEgress = {
  readonly provider: SandboxProvider
  /** How agents reach their models. Absent without a proxy. */
  readonly modelProxy?: ModelProxy
  readonly onModelBudgetSpent?: RunDeps['onModelBudgetSpent']
  /** Absent without a proxy. */
  readonly networks?: RunNetworks
  /** Servers for which owners can set credentials. Absent where no process inserts credentials. */
  readonly hosts?: CredentialHosts
  /** The authority that agents of kind `copilot` must trust, in PEM, if the proxy can insert the token of an owner for them. */
  readonly agentRoot?: string
  /** Asks the servers of credentials whether they accept a value. Absent where no process inserts credentials. */
  readonly check?: CredentialCheck
  /** Serves the replicas of the proxy. Absent without a proxy in a cluster. */
  readonly serveControl?: () => ReturnType<typeof serveEgressControl>
}

/** Gives sandboxes an egress proxy: a process of this machine, or the replicas of the cluster. */
export async function composeEgress(
  config: ApiConfig,
  provider: SandboxProvider,
  { store, restrictions, keys, credentials, userCredentials, hosts, redact, log }: Around,
): Promise<ComposedEgress> {
  const { sandboxes, egressControlPort: port, egressUpstreamProxy: upstreamProxy } = config
  if (sandboxes.kind === 'kubernetes' && port === undefined) return { provider }
  const policy = await readPolicy(config)
  refuseUnknownCredentials(policy, credentials)
  const rules = createNetworkRules(policy, credentials.isCertificate)
  const clock = () => new Date()
  const budgets = new ModelBudgets(store)
  const shares = new ByteShares({ store })
  const audit = createAuditTrail(keys)
  const writer = new ReportWriter({ store, audit, budgets, shares, redact, clock, log })
  const trust = await createTrust(keys.derive('egress-ca'), config.egressRootsFile)
  const withKey = withModelKey(credentials, config.models)
  const hasBroker = hasBrokerIn(config)
  const own = hasBroker ? userCredentials : NO_OWN_CREDENTIALS
  const ofRuns = createRunCredentials(withKey, own, keys.derive('placeholder'))
  if (sandboxes.kind === 'local' || port === undefined) {
    const egress = new LocalEgress({
      ...{
        store,
        restrictions,
        rules,
        trust,
        credentials: ofRuns,
        writer,
        budgets,
        keys,
        clock,
        log,
        upstreamProxy,
      },
      routeOf: routesOf(config, rules, ofRuns),
    })
    const networks = networksOf(rules, ofRuns, (runId) => egress.changed(runId))
    return {
      provider: withEgress(provider, egress),
      networks,
      hosts: rules.credentialHosts,
      modelProxy: egress,
      onModelBudgetSpent: (listener) => budgets.onSpent(listener),
      check: checkHere(egress, rules, hosts),
    }
  }
  const { namespaces, serviceAccounts } = names(sandboxes.slice)
  const subject = `system:serviceaccount:${namespaces.egress}:${serviceAccounts.egressProxy}`
  return composeCluster(provider, {
    ...{
      store,
      restrictions,
      keys,
      rules,
      trust,
      writer,
      budgets,
      shares,
      clock,
      log,
      subject,
      credentials: ofRuns,
    },
    upstreamProxy,
    ...{ hasBroker, hosts, userCredentials },
    ...modelsThrough(config, rules, ofRuns),
    serversOf: serversOf(rules),
    address: { host: config.host, port },
  })
}

/** Whether the proxy has a process that inserts credentials. In a cluster, the charts add its container for the same settings. */
const hasBrokerIn = ({ sandboxes, credentialsFile, hasUserVault }: ApiConfig): boolean =>
  sandboxes.kind === 'local' || credentialsFile !== undefined || hasUserVault

/** The model server of an agent, at the addresses that an entry of the operator's list names for its host. */
const routesOf =
  (
    { models }: Pick<ApiConfig, 'models'>,
    rules: Pick<NetworkRules, 'addressesOf'>,
    ofRuns: Pick<RunCredentials, 'ownModelKey' | 'hasOperators'>,
  ): RouteOf =>
  ({ agentSpec, owner }) => {
    const route = agentSpec === null ? undefined : modelRouteOf(RequestedAgent.parse(agentSpec), models)
    if (!route) return undefined
    const { credential: _named, ...server } = route
    const addresses = rules.addressesOf(new URL(route.upstream))
    const credential = modelCredentialOf(owner, route, ofRuns)
    return { ...server, ...present({ credential }), ...(addresses && { addresses: [...addresses] }) }
  }

/** The credential for a model server: the owner's, or the one that the route names. */
function modelCredentialOf(
  owner: string,
  { credential, upstream }: Pick<ModelRoute, 'credential' | 'upstream'>,
  { ownModelKey, hasOperators }: Pick<RunCredentials, 'ownModelKey' | 'hasOperators'>,
): string | undefined {
  // The proxy calls this server with its identity, for every owner.
  if (credential === PROXY_IDENTITY) return credential
  const operators = credential === OF_EACH_OWNER.model && !hasOperators(credential) ? undefined : credential
  return ownModelKey(owner, upstream) ?? operators
}

/** This service itself asks the servers, through the proxy of this machine. */
const checkHere = (egress: LocalEgress, rules: NetworkRules, hosts: Around['hosts']): CredentialCheck =>
  createCredentialCheck({
    askServer: (plan, { value }) =>
      runCheck(egress, plan, { value, signal: AbortSignal.timeout(CREDENTIAL_CHECK.waitMs) }),
    // The operator of a laptop chose the model server, so it may be on this machine.
    routeTo: checkRoute(rules, { isPrivateAllowed: true }),
    ...{ gitServer: rules.gitServer, hosts },
  })

/** The model server, as the requests of agents reach it. */
const checkRoute =
  (rules: Pick<NetworkRules, 'addressesOf'>, more: Pick<ModelRoute, 'isPrivateAllowed'> = {}) =>
  (upstream: string): ModelRoute => {
    const addresses = rules.addressesOf(new URL(upstream))
    const server = { upstream, header: 'authorization', models: ['check'] } satisfies ModelRoute
    return { ...server, ...more, ...(addresses && { addresses: [...addresses] }) }
  }

/** The route of agents in a cluster, where the service knows the address of the proxy. */
const modelsThrough = (
  {
    egressProxyAddress: address,
    models,
    isNetworkEncrypted,
  }: Pick<ApiConfig, 'egressProxyAddress' | 'models' | 'isNetworkEncrypted'>,
  rules: NetworkRules,
  ofRuns: RunCredentials,
) =>
  address === undefined
    ? {}
    : {
        routeOf: routesOf({ models }, rules, ofRuns),
        isNetworkEncrypted,
        modelUrl: `http://${address.includes(':') ? `[${address}]` : address}:${EGRESS_PROXY_PORT}${MODEL_BASE_PATH}`,
      }

type ClusterParts = Omit<Around, 'redact' | 'credentials'> & {
  readonly rules: NetworkRules
  readonly credentials: RunCredentials
  readonly routeOf?: RouteOf
  readonly serversOf: ServersOf
  readonly modelUrl?: string
  readonly trust: EgressTrust
  readonly writer: ReportWriter
  readonly budgets: ModelBudgets
  readonly shares: ByteShares
  readonly clock: () => Date
  readonly subject: string
  readonly upstreamProxy: string | undefined
  readonly isNetworkEncrypted?: boolean
  /** The replicas of the proxy have the container that inserts credentials. */
  readonly hasBroker: boolean
  readonly address: { readonly host: string; readonly port: number }
}

function composeCluster(provider: SandboxProvider, parts: ClusterParts): ComposedEgress {
  const { keys, rules, trust, address } = parts
  const { identities } = provider
  if (!identities) throw new TypeError('a provider of pods verifies their identities')
  const hub = new ControlHub({ ...parts, authorities: trust.authorities })
  const onChange = () => hub.changed()
  const egress = new ClusterEgress({ ...parts, onChange })
  const checks = createClusterChecks({
    ...parts,
    answerFor: (row) => parts.userCredentials.answerFor(row),
  })
  const control: ControlListenerOptions = { ...parts, hub, checks, identities, jwksFile: keys.jwksFile }
  const check = createCredentialCheck({
    ...{ askServer: checks.askServer, routeTo: checkRoute(rules), gitServer: rules.gitServer },
    hosts: parts.hosts,
  })
  return {
    provider: withEgress(provider, egress),
    // Without the process that inserts credentials, no replica can read a value.
    ...(parts.hasBroker && { hosts: rules.credentialHosts, check }),
    ...(parts.hasBroker && insertsGitHubToken(rules.ofAgentHost) && { agentRoot: trust.root }),
    networks: networksOf(rules, parts.credentials, (runId) => {
      onChange()
      return egress.changed(runId)
    }),
    modelProxy: egress,
    onModelBudgetSpent: (listener) => parts.budgets.onSpent(listener),
    serveControl: () => serveEgressControl(control, address),
  }
}

const networksOf = (
  rules: NetworkRules,
  { missingAt }: Pick<RunCredentials, 'missingAt'>,
  changed: RunNetworks['changed'],
): RunNetworks => ({
  missingCredential: ({ owner, ...run }, host) =>
    missingAt(owner, host, rules.destinationsOf(run, run.kind) ?? []),
  destinationsOf: rules.destinationsOf,
  standingOf: rules.standingOf,
  isLoosened: ({ kind }, host) => hasHost(rules.loosenedFor(kind), host),
  changed,
})

/** A destination with a credential that does not exist could not be used. */
function refuseUnknownCredentials({ classes }: EgressPolicy, credentials: Credentials): void {
  const entries = [...classes.agent, ...classes.command]
  const isUnknown = ({ credential, accepts }: (typeof entries)[number]) =>
    credential !== undefined &&
    !credentials.has(credential) &&
    credential !== OF_EACH_OWNER[accepts ?? 'registry']
  const unknown = entries.find(isUnknown)
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
