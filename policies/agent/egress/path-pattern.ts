/** The segments of a path or of a pattern. An empty last segment stands for a slash at the end. */
export const segmentsOf = (path: string): string[] => path.slice(1).split('/')

/**
 * Whether a pattern of the egress list matches the segments of a path. `*` stands for any characters of one segment, and `**`
 * as the last segment for one or more segments, also for the empty one after a slash at the end.
 */
export function matchesSegments(pattern: string, segments: readonly string[]): boolean {
  const parts = segmentsOf(pattern)
  const isOpen = parts.at(-1) === '**'
  const fixed = isOpen ? parts.slice(0, -1) : parts
  const isLong = isOpen ? segments.length > fixed.length : segments.length === fixed.length
  return isLong && fixed.every((part, index) => matchesSegment(part, segments[index] as string))
}

function matchesSegment(pattern: string, segment: string): boolean {
  const [first = '', ...rest] = pattern.split('*')
  const last = rest.pop()
  if (last === undefined) return pattern === segment
  if (segment === '' || segment.length < first.length + last.length) return false
  if (!segment.startsWith(first) || !segment.endsWith(last)) return false
  const end = segment.length - last.length
  let at = first.length
  for (const piece of rest) {
    const found = segment.indexOf(piece, at)
    if (found < 0 || found + piece.length > end) return false
    at = found + piece.length
  }
  return true
}
