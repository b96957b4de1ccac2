import type { SandboxKind } from '../../../contracts/names.ts'
import { allowlist, type ListedDestination } from '../../../policies/agent/egress/allowlist.ts'
import { insertsGitHubToken } from '../../../policies/agent/egress/github.ts'
import type { EgressPolicy } from '../../../policies/agent/egress/load.ts'
import { hasHost, narrow } from '../../../policies/agent/egress/narrow.ts'
import { type ResolvedEgress, resolveEgress } from '../../../policies/agent/egress/resolve.ts'
import { placementOf } from '../../../policies/agent/egress/targets.ts'
import type { RunRow } from '../../store/store.ts'

type NetworkRun = Pick<RunRow, 'settings'> & Partial<Pick<RunRow, 'allowedHosts'>>

/** `withheld`: the operator's list has the host, and the settings of the run leave it out. */
export type HostStanding = 'allowed' | 'withheld' | 'unlisted'

/** Servers of the operator's list for which owners of runs can set credentials. */
export interface CredentialHosts {
  readonly git: ReadonlySet<string>
  readonly registry: ReadonlySet<string>
}

export interface NetworkRules {
  /** The destinations of a sandbox. Undefined if the settings of its run allow no network access. */
  destinationsOf(run: NetworkRun, kind: SandboxKind): ListedDestination[] | undefined
  /** Hosts of the operator's list that the settings of the run leave out. */
  withheldFrom(run: NetworkRun, kind: SandboxKind): readonly string[]
  /** Whether the commands of a run may connect to a host. */
  standingOf(run: NetworkRun & Pick<RunRow, 'kind'>, host: string): HostStanding
  /** Hosts that are reached without the limits of their entry, because the proxy does not look into TLS. */
  loosenedFor(kind: SandboxKind): readonly string[]
  readonly credentialHosts: CredentialHosts
  /** The first entry for a git server. */
  gitServer(host: string): ListedDestination | undefined
  /** Servers that agents reach themselves, with the credential that AgentHost holds. */
  readonly ofAgentHost: readonly ListedDestination[]
  /** The addresses that an entry of the list for agents names for a server. Undefined without such an entry. */
  addressesOf(server: URL): readonly string[] | undefined
}

/**
 * What commands may reach: the list of the operator, and the settings of the run. The same on a laptop and in a cluster.
 * `isCertificate`: whether a credential of the operator is a client certificate, which no credential of an owner replaces.
 */
export function createNetworkRules(
  policy: EgressPolicy,
  isCertificate: (credential: string) => boolean = () => false,
): NetworkRules {
  // The placeholders of the built-in list are for hosts that only the agent itself reaches.
  const egress = resolveEgress(policy, {})
  const ofClass = (kind: SandboxKind) =>
    allowlist(egress, kind, 'laptop')
      .filter(isForCommands)
      .map(
        ({ accepts, ...rest }): ListedDestination =>
          !accepts || isCertificate(rest.credential ?? '') ? rest : { ...rest, accepts },
      )
  const loosened = (kind: SandboxKind) =>
    egress.classes[kind]
      .filter((one) => one.caller === undefined && placementOf(one, 'laptop').kind === 'loosened')
      .map(({ host }) => host)
  const destinations = { agent: ofClass('agent'), command: ofClass('command') }
  const listed = [...destinations.agent, ...destinations.command]
  const hostsWith = (kind: keyof CredentialHosts) =>
    new Set(listed.flatMap(({ host, accepts }) => (accepts === kind ? [host] : [])))
  return {
    credentialHosts: { git: hostsWith('git'), registry: hostsWith('registry') },
    gitServer: (wanted) => listed.find(({ host, accepts }) => accepts === 'git' && host === wanted),
    ...rulesFor(destinations, { agent: loosened('agent'), command: loosened('command') }),
    ofAgentHost: ofAgentHost(egress),
    addressesOf: ({ protocol, hostname, port }) => {
      const number = port === '' ? (protocol === 'http:' ? 80 : 443) : Number(port)
      const named = egress.classes.agent.filter(
        (one) => one.ports.includes(number) && hasHost([one.host], hostname),
      )
      // As in the proxy: where AgentHost has its own entry, no other counts for it.
      const own = named.filter(({ caller }) => caller === 'agent-host')
      return (own.length > 0 ? own : named).find(({ addresses }) => addresses)?.addresses
    },
  }
}

/** If an entry of GitHub lacks `accepts: github`, the agent has the token itself and trusts no certificate of the proxy, so the proxy passes TLS on unread. */
function ofAgentHost(egress: ResolvedEgress): ListedDestination[] {
  const all = allowlist(egress, 'agent', 'proxy').filter((one) => !isForCommands(one))
  if (insertsGitHubToken(all)) return all
  return all.map(({ accepts, ...rest }) => (accepts === 'github' || !accepts ? rest : { ...rest, accepts }))
}

/** The rules for lists of destinations. `withoutLimits`: hosts whose limits the proxy cannot enforce. */
export function rulesFor(
  destinations: Readonly<Record<SandboxKind, readonly ListedDestination[]>>,
  withoutLimits: Readonly<Record<SandboxKind, readonly string[]>>,
): Omit<NetworkRules, 'addressesOf' | 'ofAgentHost' | 'credentialHosts' | 'gitServer'> {
  return {
    destinationsOf: (run, kind) =>
      run.settings.network_enabled ? [...narrow(destinations[kind], hostsOf(run)).destinations] : undefined,
    withheldFrom: (run, kind) => narrow(destinations[kind], hostsOf(run)).withheld,
    standingOf: (run, host) => {
      const isAmong = (some: readonly ListedDestination[]) =>
        hasHost(
          some.map((one) => one.host),
          host,
        )
      if (isAmong(narrow(destinations[run.kind], hostsOf(run)).destinations)) return 'allowed'
      return isAmong(destinations[run.kind]) ? 'withheld' : 'unlisted'
    },
    loosenedFor: (kind) => withoutLimits[kind],
  }
}

/** The hosts to which a run is limited: the hosts of its settings, and the hosts that people allowed since. */
const hostsOf = ({ settings, allowedHosts = [] }: NetworkRun): readonly string[] | undefined =>
  settings.egress_hosts && [...settings.egress_hosts, ...allowedHosts.map(({ host }) => host)]

const isForCommands = ({ caller }: { caller: string }) => caller === 'any'
