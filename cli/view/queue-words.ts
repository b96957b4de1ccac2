import type { Run } from '../../contracts/api.ts'
import { duration } from '../terminal/duration.ts'

/** The position of a run that waits, and when it is expected to start. */
export function queueWords({ position, estimatedStart }: NonNullable<Run['queue']>, now: number): string {
  const place = `#${position}`
  if (estimatedStart === undefined) return place
  return `${place}, starts in about ${duration(Math.max(Date.parse(estimatedStart) - now, 0))}`
}
