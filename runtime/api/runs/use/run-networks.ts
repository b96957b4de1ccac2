import type { EgressDestination } from '../../../../contracts/egress.ts'
import type { SandboxKind } from '../../../../contracts/names.ts'
import type { UserCredentialKind } from '../../../../contracts/user-credentials.ts'
import type { RunRow } from '../../../store/store.ts'

/** Kinds of credentials that an entry of the egress list can require of each owner. */
export type OwnersKind = Exclude<UserCredentialKind, 'openai-compatible'>

/** What the commands of runs may reach through the egress proxy. */
export interface RunNetworks {
  /** Undefined if the settings of the run allow no network access. */
  destinationsOf(
    run: Pick<RunRow, 'settings'> & Partial<Pick<RunRow, 'allowedHosts'>>,
    kind: SandboxKind,
  ): readonly EgressDestination[] | undefined
  /** `withheld`: the operator's list has the host, and the settings of the run leave it out. */
  standingOf(
    run: Pick<RunRow, 'kind' | 'settings' | 'allowedHosts'>,
    host: string,
  ): 'allowed' | 'withheld' | 'unlisted'
  /** The kind of credential that the owner of a run must set to use a host. Undefined if none is missing. */
  missingCredential(run: Pick<RunRow, 'kind' | 'owner' | 'settings'>, host: string): OwnersKind | undefined
  /** Whether the proxy does not enforce the limits of the host's entry, because it does not read TLS there. */
  isLoosened(run: Pick<RunRow, 'kind'>, host: string): boolean
  /** Applies what people have allowed to a run. */
  changed(runId: string): Promise<void>
}
