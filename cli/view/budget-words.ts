import { BUDGET_KINDS, type BudgetKind, type BudgetUses } from '../../contracts/budgets.ts'
import type { EgressBudget } from '../../contracts/egress.ts'

type Use = { readonly used: number; readonly limit?: number | undefined }

/** One of them, and several. */
const NAMES: Readonly<Record<BudgetKind, readonly [string, string]>> = {
  steps: ['step', 'steps'],
  model_requests: ['model request', 'model requests'],
  tokens: ['token', 'tokens'],
  event_bytes: ['byte of events', 'bytes of events'],
  wall_seconds: ['second since the start', 'seconds since the start'],
}

const nameOf = (kind: BudgetKind, value: number) => NAMES[kind][Math.round(value) === 1 ? 0 : 1]

const count = (value: number) => Math.round(value).toLocaleString('en')

/** For example: `160,113 of 200,000 tokens (80 %)`. */
export function budgetWords(kind: BudgetKind, { used, limit }: Use): string {
  if (limit === undefined) return `${count(used)} ${nameOf(kind, used)}`
  return `${count(used)} of ${count(limit)} ${nameOf(kind, limit)} (${Math.floor((used / limit) * 100)} %)`
}

/** For example: `50,000 of 100,000 requests to registry.npmjs.org (50 %)`. */
export const egressBudgetWords = ({ kind, host, used, limit }: EgressBudget): string =>
  `${count(used)} of ${count(limit)} ${kind === 'sent_bytes' ? 'bytes sent' : kind}${host === undefined ? '' : ` to ${host}`} (${Math.floor((used / limit) * 100)} %)`

/** The used budgets of a run, as one text. A kind without a limit is left out until the run has used it. */
export const budgetUsesWords = (budgets: BudgetUses | undefined): string | undefined =>
  budgets &&
  BUDGET_KINDS.filter((kind) => budgets[kind].limit !== undefined || budgets[kind].used > 0)
    .map((kind) => budgetWords(kind, budgets[kind]))
    .join(', ')
