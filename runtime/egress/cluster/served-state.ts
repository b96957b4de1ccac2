import { CREDENTIAL_CHECK } from '../../../contracts/credential-check.ts'
import type { EgressState } from '../../../contracts/egress.ts'
import { CredentialChecks } from './credential-checks.ts'
import type { ReplicaOptions } from './replica-options.ts'

export const NOWHERE: EgressState = { revision: 0, generations: [] }

/** What a process of the proxy serves: the newest state of the API, and the networks of its checks of credentials. */
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
