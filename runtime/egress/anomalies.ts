import type { EgressAnomaly } from '../../contracts/egress.ts'

/** Numbers of the detector. It keeps no more than these, whatever a command does. */
export const ANOMALY_LIMITS = {
  /** Hosts whose times are kept. The host that was reached longest ago is forgotten first. */
  hosts: 64,
  /** Intervals that are compared. */
  intervals: 20,
  /** So many of them must be multiples of one period. */
  regular: 17,
  /** How far an interval may be from a multiple, as a share of the period. */
  tolerance: 0.15,
  /** With several replicas of the proxy, each sees only a part of the connections. */
  multiples: 4,
  /** Requests with shorter pauses are one activity: a page, an installation. */
  pauseMs: 1000,
  /** Shorter periods are downloads and retries. */
  shortestMs: 5_000,
  longestMs: 3_600_000,
  /** Domains whose names are counted, and the names that are kept of each. */
  domains: 32,
  /** So many different names that look random are reported. */
  names: 12,
  /** A host or domain is reported again after this time. */
  againMs: 3_600_000,
  /** Reports of one sandbox. */
  reports: 32,
} as const

interface Visits {
  /** When activities began, the newest last. */
  readonly starts: number[]
  lastAt: number
  count: number
}

export interface AnomalyOptions {
  readonly report: (anomaly: EgressAnomaly) => void
  readonly now: () => number
}

/**
 * Notices how commands may take instructions from a host or send data in the names of hosts: connections at regular
 * intervals, and many names that look random. It only reports. Nothing is refused, because builds may do both.
 */
export class AnomalyDetector {
  readonly #options: AnomalyOptions
  readonly #visits = new Map<string, Visits>()
  readonly #domains = new Map<string, Set<string>>()
  readonly #reported = new Map<string, number>()
  #reports = 0

  constructor(options: AnomalyOptions) {
    this.#options = options
  }

  /** What is kept: times and names. */
  get size(): number {
    const times = [...this.#visits.values()].reduce((sum, { starts }) => sum + starts.length, 0)
    const names = [...this.#domains.values()].reduce((sum, { size }) => sum + size, 0)
    return times + names + this.#reported.size
  }

  /** A connection or a request that was allowed. */
  reached(host: string, port: number): void {
    const now = this.#options.now()
    const key = `${host}:${port}`
    const visits = this.#visits.get(key) ?? { starts: [], lastAt: Number.NEGATIVE_INFINITY, count: 0 }
    touch(this.#visits, key, { value: visits, max: ANOMALY_LIMITS.hosts })
    const isNew = now - visits.lastAt >= ANOMALY_LIMITS.pauseMs
    visits.lastAt = now
    if (!isNew) return
    visits.count += 1
    visits.starts.push(now)
    if (visits.starts.length > ANOMALY_LIMITS.intervals + 1) visits.starts.shift()
    const periodMs = periodOf(visits.starts)
    if (periodMs === undefined || !this.#isDue(`polling ${key}`)) return
    const everySeconds = Math.max(1, Math.round(periodMs / 1000))
    const reason = `commands connect to it about every ${everySeconds} s, as a program does that waits for instructions or results`
    this.#options.report({ kind: 'polling', host, port, count: visits.count, everySeconds, reason })
  }

  /** The name of a host that a command asked for, whether it was allowed or refused. */
  named(host: string): void {
    const { domain, text } = partsOf(host)
    if (domain === undefined || !looksRandom(text)) return
    const names = this.#domains.get(domain) ?? new Set()
    touch(this.#domains, domain, { value: names, max: ANOMALY_LIMITS.domains })
    if (names.size < ANOMALY_LIMITS.names) names.add(text)
    if (names.size < ANOMALY_LIMITS.names || !this.#isDue(`names ${domain}`)) return
    const reason = `commands asked for ${names.size} or more different names of this domain that look random, as names do that carry data`
    this.#options.report({ kind: 'names', host: `*.${domain}`, port: 0, count: names.size, reason })
    names.clear()
  }

  #isDue(key: string): boolean {
    const now = this.#options.now()
    const last = this.#reported.get(key)
    if (last !== undefined && now - last < ANOMALY_LIMITS.againMs) return false
    if (this.#reports >= ANOMALY_LIMITS.reports) return false
    this.#reports += 1
    this.#reported.set(key, now)
    return true
  }
}

/** Sets a value as the newest one, and removes the oldest if there are too many. */
function touch<T>(map: Map<string, T>, key: string, { value, max }: { value: T; max: number }): void {
  map.delete(key)
  map.set(key, value)
  const [oldest] = map.keys()
  if (map.size > max && oldest !== undefined) map.delete(oldest)
}

/** The period of which most intervals between these times are multiples, in ms. */
export function periodOf(starts: readonly number[]): number | undefined {
  const { intervals, regular, tolerance, multiples, shortestMs, longestMs } = ANOMALY_LIMITS
  if (starts.length <= intervals) return undefined
  const between = starts.slice(1).map((at, index) => at - (starts[index] ?? at))
  const sorted = between.toSorted((a, b) => a - b)
  // The shorter intervals are single periods: with two replicas, about half of the intervals are.
  const first = sorted[Math.floor(sorted.length / 4)] ?? 0
  const single = sorted.filter((ms) => ms < 1.5 * first)
  const period = single[Math.floor(single.length / 2)] ?? 0
  if (period < shortestMs || period > longestMs) return undefined
  const isMultiple = (ms: number) => {
    const times = Math.round(ms / period)
    return times >= 1 && times <= multiples && Math.abs(ms - times * period) <= tolerance * period
  }
  return between.filter(isMultiple).length >= regular ? period : undefined
}

/** The domain with which a name ends, and what is before it, with spaces as separators. */
function partsOf(host: string): { readonly domain?: string; readonly text: string } {
  const labels = host.split('.')
  // An address has no names, and a name of two labels is the domain itself.
  if (labels.length < 3 || !/[a-z]/.test(labels.at(-1) ?? '')) return { text: '' }
  const own = labels.slice(0, -2).filter((label) => !label.startsWith('xn--'))
  return { domain: labels.slice(-2).join('.'), text: own.join(' ').replaceAll('-', ' ') }
}

const MIN_RANDOM = 12

/**
 * Encoded data mixes letters and digits, or has long runs of consonants. Words do not, and the names of machines have their
 * digits together.
 */
export function looksRandom(text: string): boolean {
  if (text.replaceAll(' ', '').length < MIN_RANDOM) return false
  const changes = text.match(/[a-z](?=\d)|\d(?=[a-z])/g)?.length ?? 0
  return changes >= 4 || /[bcdfghjklmnpqrstvwxz]{6}/.test(text)
}
