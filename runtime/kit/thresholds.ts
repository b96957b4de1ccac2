/** Parts of a limit at which an event reports its use. */
const PARTS = [0.5, 0.8, 1] as const

/** The amount at which the next event reports the use of a limit. Undefined if the limit is used up. */
export const nextThreshold = (used: number, limit: number): number | undefined =>
  PARTS.map((part) => part * limit).find((amount) => used < amount)

/** Whether an event reports this use. Several thresholds that are passed at once are reported once. */
export function passesThreshold(before: number, after: number, limit: number): boolean {
  const next = nextThreshold(before, limit)
  return next !== undefined && after >= next
}
