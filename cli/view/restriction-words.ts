import type { Restriction, RestrictionLevel, RestrictionScope } from '../../contracts/restrictions.ts'
import { visible } from '../terminal/visible.ts'

export function scopeWords(scope: RestrictionScope): string {
  if (scope.kind === 'run') return scope.id
  return scope.kind === 'owner' ? `all runs of ${visible(scope.owner)}` : 'all runs'
}

const EFFECTS: Readonly<Record<RestrictionLevel, string>> = {
  normal: 'This restriction is lifted. Commands that were stopped continue.',
  'read-only': 'File tools only read. Commands reach the network with GET and HEAD only.',
  'no-network': 'Commands have no network. Their open connections are closed.',
  frozen: 'Nothing new starts. Running commands are stopped and continue later.',
}

export const restrictionEffect = (level: RestrictionLevel): string => EFFECTS[level]

const WHOSE = { run: 'this run', owner: 'the runs of this owner', all: 'all runs' } as const

/** For example: `no-network by ada for all runs: incident 42`. */
export const restrictionWords = ({
  level,
  by,
  reason,
  scope,
}: Pick<Restriction, 'level' | 'by' | 'reason'> & { readonly scope: Restriction['scope']['kind'] }): string =>
  `${level} by ${visible(by)} for ${WHOSE[scope]}: ${visible(reason)}`
