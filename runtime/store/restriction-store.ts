import type { RestrictionRow } from './service-rows.ts'

export interface RestrictionReads {
  /** The last restriction of each scope, oldest first. */
  listRestrictions(): Promise<RestrictionRow[]>
}

export interface RestrictionTransaction extends RestrictionReads {
  /** Replaces the restriction of the same scope. */
  writeRestriction(restriction: RestrictionRow): Promise<void>
  deleteRestriction(scope: RestrictionRow['scope']): Promise<void>
}
