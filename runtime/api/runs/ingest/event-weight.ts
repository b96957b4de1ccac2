/**
 * Characters of events that a run may send in all: over a hundred commands that each fill both of their streams with the
 * default cap.
 */
export const MAX_EVENT_CHARACTERS = 1_073_741_824

/** Number of characters of all strings in a value: roughly the memory that it needs. */
export function weightOf(value: unknown): number {
  if (typeof value === 'string') return value.length
  if (typeof value !== 'object' || value === null) return 8
  return Object.values(value).reduce((sum: number, member) => sum + weightOf(member), 16)
}
