import type { EgressDestination } from '../../../contracts/egress.ts'
import type { SandboxKind } from '../../../contracts/names.ts'
import { allowlist } from '../../../policies/agent/egress/allowlist.ts'
import type { EgressPolicy } from '../../../policies/agent/egress/load.ts'
import { narrow } from '../../../policies/agent/egress/narrow.ts'
import { resolveEgress } from '../../../policies/agent/egress/resolve.ts'
import { placementOf } from '../../../policies/agent/egress/targets.ts'
import type { RunRow } from '../../store/store.ts'

export interface NetworkRules {
  /** The destinations of a sandbox. Undefined if the settings of its run allow no network access. */
  destinationsOf(run: Pick<RunRow, 'settings'>, kind: SandboxKind): EgressDestination[] | undefined
  /** Hosts of the operator's list that the settings of the run leave out. */
  withheldFrom(run: Pick<RunRow, 'settings'>, kind: SandboxKind): readonly string[]
  /** Hosts that are reached without the limits of their entry, because the proxy does not look into TLS. */
  loosenedFor(kind: SandboxKind): readonly string[]
}

/** What commands may reach: the list of the operator, and the settings of the run. The same on a laptop and in a cluster. */
export function createNetworkRules(policy: EgressPolicy): NetworkRules {
  // The placeholders of the built-in list are for hosts that only the agent itself reaches.
  const egress = resolveEgress(policy, {})
  const ofClass = (kind: SandboxKind) => allowlist(egress, kind, 'laptop').filter(isForCommands)
  const loosened = (kind: SandboxKind) =>
    egress.classes[kind]
      .filter((one) => one.caller === undefined && placementOf(one, 'laptop').kind === 'loosened')
      .map(({ host }) => host)
  const destinations = { agent: ofClass('agent'), command: ofClass('command') }
  const withoutLimits = { agent: loosened('agent'), command: loosened('command') }
  return {
    destinationsOf: ({ settings }, kind) =>
      settings.network_enabled
        ? [...narrow(destinations[kind], settings.egress_hosts).destinations]
        : undefined,
    withheldFrom: ({ settings }, kind) => narrow(destinations[kind], settings.egress_hosts).withheld,
    loosenedFor: (kind) => withoutLimits[kind],
  }
}

const isForCommands = ({ caller }: { caller: string }) => caller === 'any'
