import type { Selectable } from 'kysely'
import type { RestrictionScope } from '../../../contracts/restrictions.ts'
import { toOptionalText, toText } from '../codec.ts'
import { RestrictionKinds, RestrictionLevels, Roles } from '../columns.ts'
import type { Scope } from '../engine.ts'
import { RowReader } from '../row-reader.ts'
import type { Tables } from '../schema.ts'
import type { RestrictionRow } from '../service-rows.ts'

type Row = Selectable<Tables['restrictions']>

/** What a scope names: the id of a run, an owner, or nothing. */
function targetOf(scope: RestrictionScope): string {
  if (scope.kind === 'run') return scope.id
  return scope.kind === 'owner' ? scope.owner : ''
}

const toRow = ({ scope, owner, level, reason, by, role, at }: RestrictionRow): Row => ({
  kind: scope.kind,
  target: toText(targetOf(scope)),
  owner: toOptionalText(owner),
  level,
  reason: toText(reason),
  set_by: toText(by),
  role,
  at,
})

function scopeOf(at: RowReader<'restrictions'>): RestrictionScope {
  const kind = at.oneOf('kind', RestrictionKinds)
  if (kind === 'all') return { kind }
  return kind === 'run' ? { kind, id: at.text('target') } : { kind, owner: at.text('target') }
}

function toRestriction(row: object): RestrictionRow {
  const at = new RowReader('restrictions', row)
  const owner = at.optionalText('owner')
  return {
    scope: scopeOf(at),
    ...(owner !== undefined && { owner }),
    level: at.oneOf('level', RestrictionLevels),
    reason: at.text('reason'),
    by: at.text('set_by'),
    role: at.oneOf('role', Roles),
    at: at.plain('at'),
  }
}

/** Oldest first. */
export async function listRestrictions({ db }: Scope): Promise<RestrictionRow[]> {
  const rows = await db
    .selectFrom('restrictions')
    .selectAll()
    .orderBy('at')
    .orderBy('kind')
    .orderBy('target')
    .execute()
  return rows.map(toRestriction)
}

/** Replaces the restriction of the same scope. */
export async function writeRestriction({ db }: Scope, restriction: RestrictionRow): Promise<void> {
  const row = toRow(restriction)
  const { kind: _kind, target: _target, ...change } = row
  await db
    .insertInto('restrictions')
    .values(row)
    .onConflict((conflict) => conflict.columns(['kind', 'target']).doUpdateSet(change))
    .execute()
}

export async function deleteRestriction({ db }: Scope, scope: RestrictionScope): Promise<void> {
  await db
    .deleteFrom('restrictions')
    .where('kind', '=', scope.kind)
    .where('target', '=', toText(targetOf(scope)))
    .execute()
}

export const restrictionTransaction = (scope: Scope) => ({
  listRestrictions: () => listRestrictions(scope),
  writeRestriction: (restriction: RestrictionRow) => writeRestriction(scope, restriction),
  deleteRestriction: (of: Parameters<typeof deleteRestriction>[1]) => deleteRestriction(scope, of),
})
