import { BUDGET_KINDS, type BudgetUses } from '../../../../contracts/budgets.ts'
import { present } from '../../../kit/present.ts'
import type { RunRow } from '../../../store/store.ts'
import { wallSeconds } from './wall-clock.ts'

/** What callers see of the budgets of a run. */
export function budgetUses(run: RunRow): BudgetUses {
  const used = { ...run.usage, wall_seconds: Math.round(wallSeconds(run, new Date())) }
  const uses = BUDGET_KINDS.map((kind) => {
    const limit = run.settings.budgets?.[kind]
    return [kind, { used: used[kind], ...present({ limit }) }] as const
  })
  return Object.fromEntries(uses) as BudgetUses
}
