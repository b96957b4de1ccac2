import * as z from 'zod'

/** The kinds of budgets, with the names of the settings file. */
export const BudgetKind = z.enum(['steps', 'model_requests', 'tokens', 'event_bytes', 'wall_seconds'])
export type BudgetKind = z.infer<typeof BudgetKind>
export const BUDGET_KINDS: readonly BudgetKind[] = BudgetKind.options

const limit = (max: number) => z.int().min(1).max(max).optional()

/** Limits of one run. A run that reaches one of them fails with `budget_exceeded`. */
export const Budgets = z.strictObject({
  /** Tool calls that have ended, refused calls included. */
  steps: limit(1_000_000_000),
  /** Responses of the model. */
  model_requests: limit(1_000_000_000),
  /** Input and output tokens, as the model's server counts them. */
  tokens: limit(1_000_000_000_000),
  /** Size of the stored events of the run as JSON. */
  event_bytes: limit(1_000_000_000_000),
  /** Seconds since the first sandbox of the run served, including waits. The maximum is the maximum of a timer. */
  wall_seconds: limit(2_147_483),
})
export type Budgets = z.infer<typeof Budgets>

const BudgetUse = z.object({ used: z.number().nonnegative(), limit: z.int().optional() })

/** The use of a run, with the limit if there is one. */
export const BudgetUses = z.object({
  steps: BudgetUse,
  model_requests: BudgetUse,
  tokens: BudgetUse,
  event_bytes: BudgetUse,
  wall_seconds: BudgetUse,
})
export type BudgetUses = z.infer<typeof BudgetUses>
