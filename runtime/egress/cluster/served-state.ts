import { CREDENTIAL_CHECK } from '../../../contracts/credential-check.ts'
import type { EgressState } from '../../../contracts/egress.ts'
import { CredentialChecks } from './credential-checks.ts'
import type { ReplicaOptions } from './replica-options.ts'

export const NOWHERE: EgressState = { revision: 0, generations: [] }

/** The state that a process of the proxy applies: the newest state from the API, plus the networks of the checks that this process runs. */
export class ServedState {
  /** Absent in the process that holds no secret. */
  readonly checks: CredentialChecks | undefined
  readonly #apply: (state: EgressState) => Promise<void>
  #newest = NOWHERE

  constructor(options: ReplicaOptions, apply: (state: EgressState) => Promise<void>) {
    this.#apply = apply
    this.checks = checksOf(options, () => this.#serve())
  }

  /** Replaces the state of the API. */
  use(state: EgressState): Promise<void> {
    this.#newest = state
    return this.#serve()
  }

  #serve(): Promise<void> {
    const { generations, ...rest } = this.#newest
    return this.#apply({ ...rest, generations: [...generations, ...(this.checks?.generations ?? [])] })
  }
}

const checksOf = (
  { listen, roots, log, url, tokenFile, checkMs = CREDENTIAL_CHECK.replicaMs }: ReplicaOptions,
  apply: () => Promise<void>,
): CredentialChecks | undefined =>
  'socketPath' in listen
    ? new CredentialChecks({
        ...{ place: { url, tokenFile }, readSecret: listen.readSecret, roots, apply, checkMs, log },
      })
    : undefined
