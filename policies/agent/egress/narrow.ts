/** Whether every host of a pattern is also one of another pattern. `*.` stands for exactly one label. */
function covers(pattern: string, host: string): boolean {
  if (pattern === host) return true
  if (!pattern.startsWith('*.') || host.startsWith('*.')) return false
  const suffix = pattern.slice(1)
  const label = host.slice(0, -suffix.length)
  return host.endsWith(suffix) && label !== '' && !label.includes('.')
}

/** The hosts that both lists have. */
export function intersectHosts(some: readonly string[], others: readonly string[]): string[] {
  const both = some.flatMap((one) =>
    others.flatMap((other) => {
      if (covers(one, other)) return [other]
      return covers(other, one) ? [one] : []
    }),
  )
  return [...new Set(both)]
}

/** Whether a list of hosts has a host or a pattern. */
export const hasHost = (hosts: readonly string[], host: string): boolean =>
  hosts.some((pattern) => covers(pattern, host))

export interface Narrowed<T> {
  readonly destinations: readonly T[]
  /** Hosts that the list has, and that the settings of the run leave out. */
  readonly withheld: readonly string[]
}

/** The destinations of a run whose settings name hosts. They can only take destinations away. */
export function narrow<T extends { readonly host: string }>(
  destinations: readonly T[],
  hosts: readonly string[] | undefined,
): Narrowed<T> {
  if (hosts === undefined) return { destinations, withheld: [] }
  const kept = destinations.map((one) => ({ one, hosts: intersectHosts([one.host], hosts) }))
  return {
    destinations: kept.flatMap(({ one, hosts: own }) => own.map((host) => ({ ...one, host }))),
    withheld: kept.flatMap(({ one, hosts: own }) => (own.includes(one.host) ? [] : [one.host])),
  }
}
