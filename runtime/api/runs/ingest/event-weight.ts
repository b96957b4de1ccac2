/** Characters of all strings in a value, roughly what it takes to hold it. */
export function weightOf(value: unknown): number {
  if (typeof value === 'string') return value.length
  if (typeof value !== 'object' || value === null) return 8
  return Object.values(value).reduce((sum: number, member) => sum + weightOf(member), 16)
}
