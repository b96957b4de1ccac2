import type { CredentialAnswer, EgressGeneration, EgressState } from '../../../contracts/egress.ts'
import { messageOf } from '../../kit/errors.ts'
import { withAuthorities } from './authorities.ts'
import { partOfBroker, partOfProxy } from './credential-parts.ts'
import { type CredentialWanted, EgressProcess, type EgressProcessOptions } from './egress-process.ts'
import type { EgressTrust } from './trust.ts'

export interface EgressProcessesOptions
  extends Pick<
    EgressProcessOptions,
    'log' | 'onReport' | 'onLost' | 'complete' | 'upstreamProxy' | 'reserve'
  > {
  readonly trust: EgressTrust
  readonly readKeys: NonNullable<EgressProcessOptions['readKeys']>
  /** Returns the value of a credential. */
  readonly readCredential: (wanted: CredentialWanted) => Promise<string>
}

/**
 * The processes of the egress proxy: one that holds no secret, and one that inserts credentials. The second starts with
 * the first sandbox that may use a credential, and serves only the destinations that have one.
 */
export class EgressProcesses {
  readonly #options: EgressProcessesOptions
  readonly #proxy: EgressProcess
  readonly #broker: EgressProcess
  #generations: readonly EgressGeneration[] = []
  #isBrokerStarted = false

  constructor(options: EgressProcessesOptions) {
    const { log, onReport, onLost, complete, trust, readKeys, upstreamProxy, reserve } = options
    const common = { log, onLost, complete, rootsFile: trust.rootsFile, upstreamProxy, reserve }
    this.#options = options
    this.#proxy = new EgressProcess({ ...common, onReport, readKeys })
    this.#broker = new EgressProcess({
      ...common,
      // The first process passes these connections on, and counts their bytes.
      onReport: (report) => report.type !== 'usage' && onReport(report),
      onWanted: (wanted) => this.#answer(wanted),
    })
  }

  /** Resolves when both processes allow exactly this state. */
  async apply({ revision, generations }: EgressState): Promise<void> {
    this.#generations = generations
    const brokered = generations.flatMap(partOfBroker)
    this.#isBrokerStarted ||= brokered.length > 0
    await Promise.all([
      this.#proxy.apply(this.#signed({ revision, generations: generations.map(partOfProxy) })),
      this.#isBrokerStarted && this.#broker.apply(this.#signed({ revision, generations: brokered })),
    ])
  }

  /** The port for agents. */
  get port(): number | undefined {
    return this.#proxy.port
  }

  async close(): Promise<void> {
    await Promise.all([this.#proxy.close(), this.#broker.close()])
  }

  /** Each process has authorities for the hosts whose TLS it terminates. */
  #signed(state: EgressState): EgressState {
    return withAuthorities(state, this.#options.trust.authorities)
  }

  /** The process handles hostile input, so it gets only the credentials of the sandboxes that are open. */
  async #answer(wanted: CredentialWanted): Promise<CredentialAnswer['answer']> {
    const { runId, generation, credential } = wanted
    const { readCredential, log } = this.#options
    const mayUse = this.#generations.some(
      (one) =>
        one.runId === runId &&
        one.generation === generation &&
        (one.modelRoute?.credential === credential ||
          one.destinations.some((destination) => destination.credential === credential)),
    )
    if (!mayUse) return { fault: 'this run has no such credential' }
    try {
      return { value: await readCredential(wanted) }
    } catch (error) {
      log.error('a credential cannot be read', { credential, error: messageOf(error) })
      return { fault: 'the log of the service has the reason' }
    }
  }
}
