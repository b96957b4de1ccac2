import { randomUUID } from 'node:crypto'
import type { Restriction, RestrictionList, SetRestriction } from '../../../../contracts/restrictions.ts'
import type { AuditDraft } from '../../../audit/chain.ts'
import { SandboxError } from '../../../kit/errors.ts'
import type { RestrictionRow } from '../../../store/service-rows.ts'
import type { Transaction } from '../../../store/store.ts'
import { readsWholeAudit } from '../../people/rights.ts'
import type { AuditTrail } from '../audit-trail.ts'
import type { RunDeps } from '../deps.ts'
import { requireRun, requireRunning } from '../run-view.ts'
import type { Caller, RunService } from '../service.ts'

/** Stored scopes. Operators are never refused, because a restriction may be urgent. */
const MAX_SCOPES = 10_000

type Deps = Pick<RunDeps, 'store' | 'clock' | 'redactText' | 'restrictions'>
type Routes = Pick<RunService, 'listRestrictions' | 'setRestriction'>

/** Restrictions of runs, as callers set and see them. */
export function createRestrictionCalls(deps: Deps, audit: AuditTrail, wake: () => void): Routes {
  const { store, clock, redactText, restrictions } = deps

  async function ownerOf(caller: Caller, { scope }: SetRestriction): Promise<string | undefined> {
    if (scope.kind === 'run') return (await requireRun(store, caller, scope.id)).owner
    const owner = scope.kind === 'owner' ? scope.owner : undefined
    if (caller.role === 'operator' || owner === caller.owner) return owner
    throw new SandboxError(
      'forbidden',
      'Only an operator can restrict the runs of others. Restrict one of your runs, or your own runs.',
    )
  }

  async function write(tx: Transaction, caller: Caller, row: RestrictionRow): Promise<void> {
    const { scope, level } = row
    const rows = await tx.listRestrictions()
    const current = rows.find((one) => isSame(one.scope, scope))
    refuseWeaker(caller, current)
    if (!current && caller.role !== 'operator' && rows.length >= MAX_SCOPES)
      throw new SandboxError('conflict', `There are ${rows.length} restrictions already. Lift some first.`)
    const run = scope.kind === 'run' ? requireRunning(scope.id, await tx.readRun(scope.id)) : undefined
    await tx.writeRestriction(row)
    // The time that runs could not start does not count.
    if (current?.level === 'frozen' && level !== 'frozen') await tx.restartQueueDeadlines(scope)
    const of = { runId: run?.id ?? '', policyVersion: run?.policyVersion ?? '' }
    await audit.append(tx, of.runId, [recordOf(row, of)])
  }

  return {
    async listRestrictions(caller): Promise<RestrictionList> {
      const rows = await store.listRestrictions()
      const seen = rows.filter(
        ({ level, scope, owner }) =>
          level !== 'normal' && (readsWholeAudit(caller) || scope.kind === 'all' || owner === caller.owner),
      )
      return { items: seen.map(toRestriction) }
    },

    async setRestriction(caller, wanted): Promise<Restriction> {
      const owner = await ownerOf(caller, wanted)
      const row: RestrictionRow = {
        scope: wanted.scope,
        ...(owner !== undefined && { owner }),
        level: wanted.level,
        reason: redactText(wanted.reason),
        by: caller.owner,
        role: caller.role,
        at: clock().toISOString(),
      }
      await store.transaction(async (tx) => {
        await write(tx, caller, row)
        await caller.keep?.(tx, toRestriction(row))
      })
      await restrictions.refresh()
      wake()
      return toRestriction(row)
    },
  }
}

const recordOf = (
  { scope, level, reason, by, at }: RestrictionRow,
  of: Pick<AuditDraft, 'runId' | 'policyVersion'>,
): AuditDraft => ({
  kind: 'restriction.changed',
  ...of,
  callId: `restrict_${randomUUID().replaceAll('-', '')}`,
  actor: `person:${by}`,
  tool: 'restrict',
  decision: level,
  reasons: [`applies to ${scopeWords(scope)}`, reason],
  at,
})

/** A user may change own restrictions, but not the restrictions of an operator. */
function refuseWeaker({ role }: Caller, current: RestrictionRow | undefined): void {
  if (role === 'operator' || current?.role !== 'operator' || current.level === 'normal') return
  const { level, by, reason } = current
  throw new SandboxError(
    'forbidden',
    `The operator ${by} has set the restriction ${level}: ${reason}. Only an operator can change it.`,
  )
}

const scopeWords = (scope: RestrictionRow['scope']): string => {
  if (scope.kind === 'run') return `the run ${scope.id}`
  return scope.kind === 'owner' ? `the runs of ${scope.owner}` : 'all runs'
}

const isSame = (one: RestrictionRow['scope'], other: RestrictionRow['scope']): boolean =>
  scopeWords(one) === scopeWords(other)

/** What callers see of it. */
export const toRestriction = ({ scope, level, reason, by, role, at }: RestrictionRow): Restriction => ({
  scope,
  level,
  reason,
  by,
  role,
  at,
})
