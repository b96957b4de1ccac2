import type { EgressGeneration, EgressReport, EgressState } from '../../contracts/egress.ts'
import { messageOf } from '../kit/errors.ts'
import { Connections } from './connections.ts'
import { CredentialGate } from './credentials/gate.ts'
import type { CredentialValues } from './credentials/values.ts'
import { type Dialler, resolveBySystem } from './dial.ts'
import { Endpoint } from './endpoint.ts'
import { LeafCache } from './leaf-cache.ts'
import { EGRESS_LIMITS } from './limits.ts'

export interface EgressProxyOptions extends Partial<Dialler> {
  readonly report: (report: EgressReport) => void
  readonly now?: () => number
  /** Roots that a destination's certificate may have. @default those of Node */
  readonly roots?: readonly string[]
  /** Makes this the process that inserts credentials. */
  readonly credentials?: CredentialValues
}

interface Served {
  readonly gate?: CredentialGate | undefined
  readonly connections: Connections
  readonly endpoint: Endpoint
}

const UNAVAILABLE = {
  host: 'all hosts',
  port: 0,
  rule: 'proxy-unavailable',
  remedy: 'Start a new run.',
} as const

const keyOf = ({ runId, generation }: EgressGeneration) => `${runId} ${generation}`

/** The egress proxy. It allows what the newest state lists, and nothing else. */
export class EgressProxy {
  readonly #options: EgressProxyOptions
  readonly #served = new Map<string, Served>()
  readonly #leaves: LeafCache
  readonly #meter: NodeJS.Timeout

  constructor(options: EgressProxyOptions) {
    this.#options = options
    this.#leaves = new LeafCache({ now: options.now ?? Date.now })
    const { meterMs } = options.limits ?? EGRESS_LIMITS
    this.#meter = setInterval(() => this.#forEach(meter), meterMs)
    this.#meter.unref()
  }

  /** Takes a state over. Connections that it does not allow are closed before this returns. */
  async apply(state: EgressState): Promise<void> {
    this.#leaves.setAuthorities(state.authorities ?? [])
    this.#options.credentials?.retain(state.generations)
    const listed = new Map(state.generations.map((generation) => [keyOf(generation), generation]))
    for (const [key, served] of this.#served) {
      const generation = listed.get(key)
      if (generation) served.connections.judge(generation)
      else this.#close(key, served)
    }
    const added = [...listed].filter(([key]) => !this.#served.has(key))
    await Promise.all(added.map(([key, generation]) => this.#open(key, generation)))
    this.#options.report({ type: 'applied', revision: state.revision })
  }

  close(): void {
    clearInterval(this.#meter)
    for (const [key, served] of this.#served) this.#close(key, served)
  }

  async #open(key: string, generation: EgressGeneration): Promise<void> {
    const { limits = EGRESS_LIMITS, resolve = resolveBySystem, now = Date.now, report } = this.#options
    const connections = new Connections(generation, { limits, report, now })
    const { credentials: values } = this.#options
    const { repeatMs } = limits
    const gate = values && new CredentialGate({ generation, values, report, now, repeatMs })
    const endpoint = new Endpoint({
      ...this.#options,
      limits,
      resolve,
      socketPath: generation.socketPath,
      caller: 'commands',
      connections,
      gate,
      contextFor: (authority, host) => this.#leaves.contextFor(authority, host),
      hasRoom: () => this.#count() < limits.connections,
    })
    this.#served.set(key, { connections, endpoint, gate })
    try {
      await endpoint.listen()
    } catch (error) {
      // The sandbox may be gone already. The others keep their network.
      const cause = messageOf(error)
      connections.refuse({ ...UNAVAILABLE, reason: `the proxy cannot serve this sandbox: ${cause}` })
      this.#close(key, { connections, endpoint, gate })
    }
  }

  #close(key: string, { connections, endpoint, gate }: Served): void {
    this.#served.delete(key)
    gate?.close()
    connections.close()
    endpoint.close()
  }

  #count(): number {
    let count = 0
    this.#forEach(({ connections }) => {
      count += connections.count
    })
    return count
  }

  #forEach(visit: (served: Served) => void): void {
    for (const served of this.#served.values()) visit(served)
  }
}

function meter({ connections, gate }: Served): void {
  connections.meter()
  gate?.meter()
}
