import type { RunRow } from '../../../store/store.ts'

/** What the commands of runs may reach through the egress proxy. */
export interface RunNetworks {
  /** `withheld`: the operator's list has the host, and the settings of the run leave it out. */
  standingOf(
    run: Pick<RunRow, 'kind' | 'settings' | 'allowedHosts'>,
    host: string,
  ): 'allowed' | 'withheld' | 'unlisted'
  /** Whether the proxy does not enforce the limits of the host's entry, because it does not read TLS there. */
  isLoosened(run: Pick<RunRow, 'kind'>, host: string): boolean
  /** Applies what people have allowed to a run. */
  changed(runId: string): Promise<void>
}
