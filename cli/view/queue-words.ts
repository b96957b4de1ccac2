import type { Run } from '../../contracts/api.ts'
import { duration } from '../terminal/duration.ts'
import { restrictionWords } from './restriction-words.ts'

/** The position of a run that waits, and when it is expected to start. */
export function queueWords({ position, estimatedStart }: NonNullable<Run['queue']>, now: number): string {
  const place = `#${position}`
  if (estimatedStart === undefined) return place
  return `${place}, starts in about ${roughly(Math.max(Date.parse(estimatedStart) - now, 0))}`
}

const freezeOf = ({ restrictions = [] }: Pick<Run, 'restrictions'>) =>
  restrictions.find(({ level }) => level === 'frozen')

export const isFrozen = (run: Pick<Run, 'restrictions'>): boolean => freezeOf(run) !== undefined

/** Why a queued run waits. */
export function queueReason(run: Pick<Run, 'restrictions'>): string {
  const frozen = freezeOf(run)
  if (!frozen) return 'waits for a free place'
  return `waits until the restriction is lifted (${restrictionWords({ ...frozen, scope: frozen.scope.kind })})`
}

/** An estimate has no decimals. */
const roughly = (ms: number): string =>
  ms < 60_000 ? `${Math.max(Math.round(ms / 1000), 1)} s` : duration(ms)
