import { BUDGET_KINDS, type BudgetKind } from '../../../../contracts/budgets.ts'
import type { RunEvent } from '../../../../contracts/events.ts'
import { present } from '../../../kit/present.ts'
import { nextThreshold as nextAmount, passesThreshold } from '../../../kit/thresholds.ts'
import type { RunRow, RunUsage } from '../../../store/store.ts'

/** A budget that is used up. */
export type SpentBudget = {
  readonly kind: BudgetKind
  readonly used: number
  readonly limit: number
  /** The tokens that the next request to the model may use, if they are more than the rest. */
  readonly wanted?: number
}

export type Spending = {
  readonly usage: RunUsage
  /** An event for each budget that has reached the next of its thresholds. */
  readonly notices: readonly RunEvent[]
  readonly spent?: SpentBudget
}

type Spender = Pick<RunRow, 'usage' | 'settings'>

/** What the events of a sandbox use. `isRouted`: the egress proxy counts the requests to the model, so the events do not. */
export function usesOf(events: readonly RunEvent[], isRouted = false): Partial<RunUsage> {
  const uses = { steps: 0, model_requests: 0, tokens: 0, event_bytes: 0 }
  for (const event of events) {
    uses.event_bytes += Buffer.byteLength(JSON.stringify(event))
    if (event.type === 'tool.result' || event.type === 'tool.error') uses.steps += 1
    if (isRouted || event.type !== 'agent.turn.usage') continue
    uses.model_requests += 1
    uses.tokens += event.data.inputTokens + event.data.outputTokens
  }
  return uses
}

/** Adds to the usage of a run. `run` must have been read in the transaction that stores the result. */
export function spend(run: Spender, added: Partial<RunUsage>): Spending {
  const usage = { ...run.usage }
  for (const kind of BUDGET_KINDS) usage[kind] += added[kind] ?? 0
  const notices = BUDGET_KINDS.flatMap((kind): RunEvent[] => {
    const limit = run.settings.budgets?.[kind]
    if (limit === undefined || !passesThreshold(run.usage[kind], usage[kind], limit)) return []
    return [{ type: 'run.budget', data: { kind, used: usage[kind], limit } }]
  })
  return { usage, notices, ...present({ spent: spentBudget({ ...run, usage }) }) }
}

/** The amount at which the next event reports a budget. Undefined without a limit, and if the budget is used up. */
export function nextThreshold({ usage, settings }: Spender, kind: BudgetKind): number | undefined {
  const limit = settings.budgets?.[kind]
  if (limit === undefined) return undefined
  return nextAmount(usage[kind], limit)
}

/** The first budget that is used up. */
export function spentBudget({ usage, settings }: Spender): SpentBudget | undefined {
  for (const kind of BUDGET_KINDS) {
    const limit = settings.budgets?.[kind]
    if (limit !== undefined && usage[kind] >= limit) return { kind, used: usage[kind], limit }
  }
  return undefined
}
