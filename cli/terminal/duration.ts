/** Formats a duration for people. */
export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`
  const minutes = Math.floor(ms / 60_000)
  if (minutes < 60) return `${minutes} min ${Math.floor((ms % 60_000) / 1000)} s`
  const hours = Math.floor(minutes / 60)
  return hours < 24 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`
}

const UNITS: readonly (readonly [string, number])[] = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1000],
]

/** Time since `iso`, in one unit. */
export function age(iso: string, now: number): string {
  const ms = Math.max(now - Date.parse(iso), 0)
  const [name, size] = UNITS.find(([, unit]) => ms >= unit) ?? ['s', 1000]
  return `${Math.floor(ms / size)} ${name}`
}
