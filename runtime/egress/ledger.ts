import type { EgressDenied, EgressReport, EgressSummary } from '../../contracts/egress.ts'
import type { RunPhase } from '../../contracts/policy.ts'
import type { EgressLimits } from './limits.ts'
import type { Refusal } from './refusals.ts'

export interface Refused extends Refusal {
  readonly host: string
  readonly port: number
  readonly method?: string | undefined
  readonly path?: string | undefined
}

interface Repeated {
  refused: Refused
  count: number
  reportedAt: number
}

export interface Traffic {
  readonly host: string
  readonly port: number
  readonly phase: RunPhase
  readonly sentBytes: number
  readonly receivedBytes: number
}

type HostSummary = EgressSummary['hosts'][number]
type Mutable<T> = { -readonly [K in keyof T]: T[K] }

export interface LedgerOptions {
  readonly runId: string
  readonly generation: number
  readonly limits: EgressLimits
  readonly report: (report: EgressReport) => void
  readonly now: () => number
}

const OTHERS = 'other hosts'
/** Refusals beyond the limit are counted together for each rule. */
const BEYOND = {
  host: OTHERS,
  port: 0,
  reason: 'many other connections were refused by this rule',
  remedy: 'Read what the commands printed about each refusal.',
}

/** Counts the connections and refusals of one sandbox, and reports them. */
export class Ledger {
  readonly #options: LedgerOptions
  readonly #refusals = new Map<string, Repeated>()
  readonly #hosts = new Map<string, Mutable<HostSummary>>()
  #omitted = 0
  #bytes = 0

  constructor(options: LedgerOptions) {
    this.#options = options
  }

  /** Bytes of ended connections. */
  get bytes(): number {
    return this.#bytes
  }

  refuse(refused: Refused, phase: RunPhase): void {
    const { limits, now } = this.#options
    this.#count({ ...refused, phase, sentBytes: 0, receivedBytes: 0 }, 'denied')
    const own = [refused.host, refused.port, refused.method, refused.path, refused.rule].join(' ')
    const isKnown = this.#refusals.has(own)
    const isBeyond = !isKnown && this.#refusals.size >= limits.reportedRefusals
    const key = isBeyond ? `${OTHERS} ${refused.rule}` : own
    const repeated = this.#refusals.get(key) ?? {
      refused: isBeyond ? { ...refused, ...BEYOND, path: undefined } : refused,
      count: 0,
      reportedAt: Number.NEGATIVE_INFINITY,
    }
    repeated.count += 1
    this.#refusals.set(key, repeated)
    if (now() - repeated.reportedAt >= limits.repeatMs) this.#reportRefusal(repeated)
  }

  ended(traffic: Traffic): void {
    this.#bytes += traffic.sentBytes + traffic.receivedBytes
    this.#count(traffic, 'connections')
  }

  /** Reports repeats that were not reported yet. */
  flush(): void {
    const { now, limits } = this.#options
    for (const repeated of this.#refusals.values())
      if (repeated.count > 0 && now() - repeated.reportedAt >= limits.repeatMs) this.#reportRefusal(repeated)
  }

  /** Reports everything that was not reported yet, and the sums per host. */
  close(): void {
    const { runId, generation, report } = this.#options
    for (const repeated of this.#refusals.values()) if (repeated.count > 0) this.#reportRefusal(repeated)
    const hosts = [...this.#hosts.values()].sort((a, b) => (a.host < b.host ? -1 : 1))
    if (hosts.length === 0) return
    report({ type: 'summary', runId, generation, data: { hosts, omitted: this.#omitted } })
  }

  #reportRefusal(repeated: Repeated): void {
    const { runId, generation, report, now } = this.#options
    const { host, port, method, path, rule, reason, remedy } = repeated.refused
    const data: EgressDenied = {
      host: host.slice(0, 300),
      port,
      ...(method !== undefined && { method: method.slice(0, 32) }),
      ...(path !== undefined && { path: path.slice(0, 200) }),
      rule,
      reason: reason.slice(0, 1000),
      remedy: remedy.slice(0, 1000),
      count: repeated.count,
    }
    repeated.count = 0
    repeated.reportedAt = now()
    report({ type: 'denied', runId, generation, data })
  }

  #count(traffic: Traffic, what: 'connections' | 'denied'): void {
    const { host, port, phase, sentBytes, receivedBytes } = traffic
    const key = `${host} ${port} ${phase}`
    let sum = this.#hosts.get(key)
    if (!sum && this.#hosts.size >= this.#options.limits.summaryHosts) {
      this.#omitted += 1
      // A refused name may be invented. It must not displace a host that was reached.
      const refused = [...this.#hosts].find(([, { connections }]) => connections === 0)
      if (what === 'denied' || !refused) return
      this.#hosts.delete(refused[0])
    }
    sum ??= {
      host: host.slice(0, 300),
      port,
      phase,
      connections: 0,
      sentBytes: 0,
      receivedBytes: 0,
      denied: 0,
    }
    this.#hosts.set(key, sum)
    sum[what] += 1
    sum.sentBytes += sentBytes
    sum.receivedBytes += receivedBytes
  }
}
