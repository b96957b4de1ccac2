import { BUDGET_KINDS, type BudgetKind, type BudgetUses } from '../../contracts/budgets.ts'

type Use = { readonly used: number; readonly limit?: number | undefined }

const NAMES: Readonly<Record<BudgetKind, string>> = {
  steps: 'steps',
  model_requests: 'model requests',
  tokens: 'tokens',
  event_bytes: 'bytes of events',
  wall_seconds: 'seconds since the start',
}

const count = (value: number) => Math.round(value).toLocaleString('en')

/** For example: `160,113 of 200,000 tokens (80 %)`. */
export function budgetWords(kind: BudgetKind, { used, limit }: Use): string {
  if (limit === undefined) return `${count(used)} ${NAMES[kind]}`
  return `${count(used)} of ${count(limit)} ${NAMES[kind]} (${Math.floor((used / limit) * 100)} %)`
}

/** What a run has used, as one text. A kind without a limit is left out until the run has used it. */
export const budgetUsesWords = (budgets: BudgetUses | undefined): string | undefined =>
  budgets &&
  BUDGET_KINDS.filter((kind) => budgets[kind].limit !== undefined || budgets[kind].used > 0)
    .map((kind) => budgetWords(kind, budgets[kind]))
    .join(', ')
