import type { EgressGeneration, EgressState } from '../../../contracts/egress.ts'
import { EGRESS_LEASE } from '../../../contracts/egress-control.ts'
import type { IntermediateAuthorities } from '../../egress-ca/intermediate.ts'
import { messageOf } from '../../kit/errors.ts'
import type { Log } from '../../kit/log.ts'
import type { Store } from '../../store/store.ts'
import type { Restrictions } from '../runs/restrictions/restrictions.ts'
import { withAuthorities } from './authorities.ts'
import { generationsOf, type StateParts } from './control-state.ts'
import { partOfBroker, partOfProxy } from './credential-parts.ts'
import type { RunCredentials } from './run-credentials.ts'

export interface ControlHubOptions extends StateParts {
  readonly store: Pick<Store, 'listNetworks' | 'listCredentialChecks'>
  readonly restrictions: Pick<Restrictions, 'of' | 'onChange'>
  readonly credentials: Pick<RunCredentials, 'forRun' | 'onChange'>
  readonly authorities: IntermediateAuthorities
  readonly log: Log
  /** @default 300 ms */
  readonly pollMs?: number
}

/** The states of both processes of a replica. */
export interface ControlStates {
  readonly proxy: EgressState
  readonly credentials: EgressState
}

export interface ControlNews extends ControlStates {
  /** Checks of credentials that no replica has begun. */
  readonly checks: string[]
  /** Whether a process must get its part: it has changed, or the leases must be renewed. */
  readonly isDueFor: Readonly<Record<keyof ControlStates, boolean>>
}

type Listener = (news: ControlNews) => void

/** The end of a run must reach every replica of the proxy within a second, also if another API process has ended the run. */
const POLL_MS = 300
/** A replica that got a message within this time counts as connected. It gets one at each renewal of its lease. */
export const PROXY_SEEN_MS = 3 * EGRESS_LEASE.renewMs
const NOTHING = { proxy: '', credentials: '' } as const
/** Checks in one message. */
const MAX_CHECKS = 64

/**
 * Reads the state of the proxies from the store while a replica is connected, and passes it on when it has changed or the
 * leases must be renewed. A state that cannot be read renews no lease.
 */
export class ControlHub {
  readonly #options: ControlHubOptions
  readonly #listeners = new Set<Listener>()
  #revision = 0
  /** The last state that was read for each process, as JSON. A process gets its next state if that differs. */
  #last: Readonly<Record<keyof ControlStates, string>> = NOTHING
  #sentAt = Number.NEGATIVE_INFINITY
  #timer: NodeJS.Timeout | undefined
  #isReading = false
  #isAskedAgain = false

  constructor(options: ControlHubOptions) {
    this.#options = options
    options.restrictions.onChange(() => this.changed())
    options.credentials.onChange(() => this.changed())
  }

  /** Calls back with each state, beginning with the current one. The return value unsubscribes. */
  subscribe(listener: Listener): () => void {
    this.#listeners.add(listener)
    // The new listener gets a state even if it is the same as before.
    this.#last = NOTHING
    this.changed()
    return () => {
      this.#listeners.delete(listener)
      if (this.#listeners.size === 0) clearTimeout(this.#timer)
    }
  }

  /** Reads the state now. */
  changed(): void {
    if (this.#listeners.size === 0) return
    if (this.#isReading) {
      this.#isAskedAgain = true
      return
    }
    clearTimeout(this.#timer)
    this.#isReading = true
    void this.#read().finally(() => {
      this.#isReading = false
      const isAskedAgain = this.#isAskedAgain
      this.#isAskedAgain = false
      if (isAskedAgain) this.changed()
      else if (this.#listeners.size > 0)
        this.#timer = setTimeout(() => this.changed(), this.#options.pollMs ?? POLL_MS)
    })
  }

  #dueFor(texts: Readonly<Record<keyof ControlStates, string>>): ControlNews['isDueFor'] {
    const last = this.#last
    this.#last = texts
    const isRenewal = performance.now() - this.#sentAt >= EGRESS_LEASE.renewMs
    if (isRenewal) this.#sentAt = performance.now()
    return {
      proxy: isRenewal || texts.proxy !== last.proxy,
      credentials: isRenewal || texts.credentials !== last.credentials,
    }
  }

  async #read(): Promise<void> {
    const { store, authorities, log } = this.#options
    try {
      const all = generationsOf(await store.listNetworks(), this.#options)
      const signed = (generations: EgressGeneration[]) =>
        withAuthorities({ revision: 0, generations }, authorities)
      const proxy = signed(all.map(partOfProxy))
      const credentials = signed(all.flatMap(partOfBroker))
      const checks = (await store.listCredentialChecks()).slice(0, MAX_CHECKS)
      const isDueFor = this.#dueFor({
        proxy: JSON.stringify(proxy),
        credentials: JSON.stringify([credentials, checks]),
      })
      if (!isDueFor.proxy && !isDueFor.credentials) return
      this.#revision += 1
      const revision = this.#revision
      const states = { proxy: { ...proxy, revision }, credentials: { ...credentials, revision } }
      for (const listener of [...this.#listeners]) listener({ ...states, checks, isDueFor })
    } catch (error) {
      log.error('the state of the egress proxies could not be read', { error: messageOf(error) })
    }
  }
}
