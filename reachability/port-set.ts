/** The protocol of a packet. `ICMP` has no port, so only rules for all ports allow it. */
export type Protocol = 'TCP' | 'UDP' | 'SCTP' | 'ICMP'

/** A range of ports, both ends included. */
export type PortRange = readonly [first: number, last: number]

/** Sorted, disjoint ranges. `ICMP` has no ports: either all or none are open. */
export type PortSet = Readonly<Record<Protocol, readonly PortRange[]>>

const PROTOCOLS = ['TCP', 'UDP', 'SCTP', 'ICMP'] as const
const EVERY: readonly PortRange[] = [[1, 65_535]]

export const ALL_PORTS: PortSet = { TCP: EVERY, UDP: EVERY, SCTP: EVERY, ICMP: EVERY }

export const portSet = (some: Partial<PortSet>): PortSet =>
  perProtocol((protocol) => merge(some[protocol] ?? []))

const NO_PORTS: PortSet = { TCP: [], UDP: [], SCTP: [], ICMP: [] }

export function unite(sets: readonly PortSet[]): PortSet {
  const [only = NO_PORTS, ...others] = sets
  return others.length === 0 ? only : perProtocol((protocol) => merge(sets.flatMap((set) => set[protocol])))
}

export function intersect(a: PortSet, b: PortSet): PortSet {
  if (a === ALL_PORTS || b === NO_PORTS) return b
  if (b === ALL_PORTS || a === NO_PORTS) return a
  return perProtocol((protocol) =>
    merge(a[protocol].flatMap((range) => b[protocol].map((other) => common(range, other)))),
  )
}

const common = ([first, last]: PortRange, [from, to]: PortRange): PortRange => [
  Math.max(first, from),
  Math.min(last, to),
]

export function subtract(a: PortSet, b: PortSet): PortSet {
  if (a === NO_PORTS || b === NO_PORTS) return a
  return intersect(
    a,
    perProtocol((protocol) => gaps(b[protocol])),
  )
}

export const hasPorts = (set: PortSet): boolean => PROTOCOLS.some((protocol) => set[protocol].length > 0)

export const samePorts = (a: PortSet, b: PortSet): boolean =>
  a === b || PROTOCOLS.every((protocol) => sameRanges(a[protocol], b[protocol]))

const sameRanges = (a: readonly PortRange[], b: readonly PortRange[]): boolean =>
  a.length === b.length && a.every(([first, last], index) => b[index]?.[0] === first && b[index][1] === last)

/** `TCP 3000–8087, 8089–9000; UDP 53`, `everything`, or nothing. */
export function formatPorts(set: PortSet): string {
  if (PROTOCOLS.every((protocol) => isEvery(set[protocol]))) return 'everything'
  return PROTOCOLS.filter((protocol) => set[protocol].length > 0)
    .map((protocol) => `${protocol} ${rangesText(set[protocol])}`.trimEnd())
    .join('; ')
}

const rangesText = (ranges: readonly PortRange[]) =>
  isEvery(ranges)
    ? '(all)'
    : ranges.map(([first, last]) => (first === last ? `${first}` : `${first}–${last}`)).join(', ')

const isEvery = (ranges: readonly PortRange[]) =>
  ranges.length === 1 && ranges[0]?.[0] === 1 && ranges[0][1] === 65_535

const perProtocol = (of: (protocol: Protocol) => readonly PortRange[]): PortSet => ({
  TCP: of('TCP'),
  UDP: of('UDP'),
  SCTP: of('SCTP'),
  ICMP: of('ICMP'),
})

function merge(ranges: readonly PortRange[]): PortRange[] {
  const merged: PortRange[] = []
  for (const [first, last] of ranges.filter(([from, to]) => from <= to).sort(([a], [b]) => a - b)) {
    const before = merged.at(-1)
    if (before && first <= before[1] + 1) merged[merged.length - 1] = [before[0], Math.max(before[1], last)]
    else merged.push([first, last])
  }
  return merged
}

function gaps(ranges: readonly PortRange[]): PortRange[] {
  const starts = [1, ...ranges.map(([, last]) => last + 1)]
  const ends = [...ranges.map(([first]) => first - 1), 65_535]
  return starts.map((start, index): PortRange => [start, ends[index] ?? 65_535]).filter(([a, b]) => a <= b)
}
