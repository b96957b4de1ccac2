import type { Run } from '../../contracts/api.ts'
import { duration } from '../terminal/duration.ts'
import { restrictionWords } from './restriction-words.ts'

/** The position of a run that waits, and when it is expected to start. */
export function queueWords({ position, estimatedStart }: NonNullable<Run['queue']>, now: number): string {
  const place = `#${position}`
  if (estimatedStart === undefined) return place
  return `${place}, starts in about ${roughly(Math.max(Date.parse(estimatedStart) - now, 0))}`
}

export const isFrozen = ({ restrictions = [] }: Pick<Run, 'restrictions'>): boolean =>
  restrictions.some(({ level }) => level === 'frozen')

/** Why a queued run waits. */
export function queueReason({ restrictions = [] }: Pick<Run, 'restrictions'>): string {
  const frozen = restrictions.find(({ level }) => level === 'frozen')
  if (!frozen) return 'waits for a free place'
  return `waits until the restriction is lifted (${restrictionWords({ ...frozen, scope: frozen.scope.kind })})`
}

/** An estimate has no decimals. */
const roughly = (ms: number): string =>
  ms < 60_000 ? `${Math.max(Math.round(ms / 1000), 1)} s` : duration(ms)
