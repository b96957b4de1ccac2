import type { EgressDenied, EgressReport, EgressSummary } from '../../contracts/egress.ts'
import type { ModelUse } from '../../contracts/egress-budgets.ts'
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
  waitMs: number
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

const HOUR_MS = 3_600_000
/** The last report of an hour. */
const SILENT = {
  host: OTHERS,
  port: 0,
  method: undefined,
  path: undefined,
  reason:
    'too many connections were refused; further refusals within this hour are only counted in the summary',
  remedy: 'Read what the commands printed about each refusal.',
}

/** Counts the connections and refusals of one sandbox, and reports them. */
export class Ledger {
  readonly #options: LedgerOptions
  readonly #refusals = new Map<string, Repeated>()
  readonly #hosts = new Map<string, Mutable<HostSummary>>()
  #hour = { startedAt: Number.NEGATIVE_INFINITY, reports: 0 }
  #omitted = 0
  /** The service has stored everything about the sandbox when it hears that the state is applied. */
  #isClosed = false
  #bytes = 0

  constructor(options: LedgerOptions) {
    this.#options = options
  }

  /** Bytes of ended connections. */
  get bytes(): number {
    return this.#bytes
  }

  refuse(refused: Refused, phase: RunPhase): void {
    if (this.#isClosed) return
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
      waitMs: limits.repeatMs,
    }
    repeated.count += 1
    this.#refusals.set(key, repeated)
    if (now() - repeated.reportedAt >= repeated.waitMs) this.#reportRefusal(repeated)
  }

  /** Reports bytes that were sent and received since the last report. */
  used(bytes: number): void {
    const { runId, generation, report } = this.#options
    report({ type: 'usage', runId, generation, bytes })
  }

  usedModel(data: ModelUse): void {
    const { runId, generation, report } = this.#options
    report({ type: 'model-use', runId, generation, data })
  }

  /** `isListed`: whether the summary lists the connection. Its bytes count in any case. */
  ended(traffic: Traffic, { isListed = true } = {}): void {
    this.#bytes += traffic.sentBytes + traffic.receivedBytes
    if (isListed) this.#count(traffic, 'connections')
  }

  /** Reports repeats that were not reported yet. */
  flush(): void {
    const { now } = this.#options
    for (const repeated of this.#refusals.values())
      if (repeated.count > 0 && now() - repeated.reportedAt >= repeated.waitMs) this.#reportRefusal(repeated)
  }

  /** Reports everything that was not reported yet, and the sums per host. */
  close(): void {
    const { runId, generation, report } = this.#options
    for (const repeated of this.#refusals.values()) if (repeated.count > 0) this.#reportRefusal(repeated)
    this.#isClosed = true
    const hosts = [...this.#hosts.values()].sort((a, b) => (a.host < b.host ? -1 : 1))
    if (hosts.length === 0) return
    report({ type: 'summary', runId, generation, data: { hosts, omitted: this.#omitted } })
  }

  /** Each report becomes an event and an audit record, so their number is limited. */
  #reportRefusal(repeated: Repeated): void {
    const { limits, now } = this.#options
    if (now() - this.#hour.startedAt >= HOUR_MS) this.#hour = { startedAt: now(), reports: 0 }
    this.#hour.reports += 1
    if (this.#hour.reports > limits.refusalReportsPerHour) return
    const isLast = this.#hour.reports === limits.refusalReportsPerHour
    this.#send(isLast ? { ...repeated, refused: { ...repeated.refused, ...SILENT } } : repeated)
    if (Number.isFinite(repeated.reportedAt))
      repeated.waitMs = Math.min(repeated.waitMs * 2, limits.longestRepeatMs)
    repeated.count = 0
    repeated.reportedAt = now()
  }

  #send(repeated: Repeated): void {
    const { runId, generation, report } = this.#options
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
