import type { ModelRoute } from '../../../contracts/egress.ts'
import type {
  BudgetRefusal,
  ModelUse,
  ReservationDecision,
  ReservationRequest,
} from '../../../contracts/egress-budgets.ts'
import type { SandboxSettings } from '../../../contracts/policy.ts'
import type { RunEnding } from '../../store/columns.ts'
import type { RunRow, Store, Transaction } from '../../store/store.ts'
import { type SpentBudget, spend } from '../runs/budgets/spend.ts'
import { budgetExceeded } from '../runs/drive/finish.ts'

/** An answer may take so long. Then its request counts as a whole, because the process of the proxy may have ended. */
const RESERVED_MS = 1_800_000

const KINDS = ['model_requests', 'tokens'] as const
type Kind = (typeof KINDS)[number]
type Amounts = Readonly<Record<Kind, number>>

type OnSpent = (runId: string, ending: RunEnding) => void

/** Makes the proxy reserve what the requests of a run to its model may use, if the run has a budget for it. */
export const meteredPart = ({ budgets }: Pick<SandboxSettings, 'budgets'>): Pick<ModelRoute, 'isMetered'> =>
  KINDS.some((kind) => budgets?.[kind] !== undefined) ? { isMetered: true } : {}

/**
 * The budgets of runs whose agents call their models through the egress proxy. Each request is reserved before the proxy
 * sends it, and its use is added to the run when the response has ended. Both are in the store, so that all
 * processes of the proxy share a budget, and none has it again after a crash.
 */
export class ModelBudgets {
  readonly #store: Pick<Store, 'transaction'>
  readonly #listeners = new Set<OnSpent>()

  constructor(store: Pick<Store, 'transaction'>) {
    this.#store = store
  }

  /** Calls back when a budget of a run is used up. The end of the run is stored then. */
  onSpent(listener: OnSpent): void {
    this.#listeners.add(listener)
  }

  tell(runId: string, ending: RunEnding | undefined): void {
    if (ending) for (const listener of this.#listeners) listener(runId, ending)
  }

  async reserve({ runId, generation, reservation }: ReservationRequest): Promise<ReservationDecision> {
    const { ending, decision } = await this.#store.transaction(async (tx) => {
      const run = await tx.readRun(runId)
      if (!run || run.endedAt !== undefined || run.ending !== undefined || run.generation !== generation)
        return { decision: { ok: false } as const }
      const lost = await tx.takeLostReservations(runId, 'overdue')
      const overdue = await add(tx, run, sumOf(lost))
      if (overdue.ending) return { ...overdue, decision: { ok: false } as const }
      const reserved = sumOf(await tx.listReservations(runId))
      const asked = { reserved, wanted: { model_requests: 1, tokens: reservation.tokens } }
      const refusal = refusalOf(overdue.run, asked)
      if (!refusal) {
        await tx.insertReservation({ ...reservation, runId }, RESERVED_MS)
        return { decision: { ok: true } as const }
      }
      const ending = refusal.isFinal ? await endSpent(tx, run, refusal) : undefined
      return { ending, decision: { ok: false, refusal } as const }
    })
    this.tell(runId, ending)
    return decision
  }

  /** Adds the use of a request. `run` must have been read in the transaction. Returns the end of the run, if it ends. */
  async settle(tx: Transaction, run: RunRow, use: ModelUse): Promise<RunEnding | undefined> {
    const { reservation, requests, tokens } = use
    // A reservation that is gone was counted as a whole.
    if (reservation !== undefined && !(await tx.takeReservation(reservation))) return undefined
    return (await add(tx, run, { model_requests: requests, tokens })).ending
  }

  /** The process that would report the use of these runs has ended. Their open requests count as a whole. */
  async chargeAll(runIds: Iterable<string>): Promise<void> {
    for (const runId of new Set(runIds)) {
      const ending = await this.#store.transaction(async (tx) => {
        const run = await tx.readRun(runId)
        if (!run) return undefined
        return (await add(tx, run, sumOf(await tx.takeLostReservations(runId, 'all')))).ending
      })
      this.tell(runId, ending)
    }
  }
}

const sumOf = (reservations: readonly { readonly tokens: number }[]): Amounts => ({
  model_requests: reservations.length,
  tokens: reservations.reduce((sum, { tokens }) => sum + tokens, 0),
})

/** The first budget that a request does not fit into. */
function refusalOf(
  { settings, usage }: Pick<RunRow, 'settings' | 'usage'>,
  { reserved, wanted }: { readonly reserved: Amounts; readonly wanted: Amounts },
): BudgetRefusal | undefined {
  for (const kind of KINDS) {
    const limit = settings.budgets?.[kind]
    const used = usage[kind]
    if (limit === undefined || used + reserved[kind] + wanted[kind] <= limit) continue
    const isFinal = used + wanted[kind] > limit
    return { kind, limit, used, reserved: reserved[kind], wanted: wanted[kind], isFinal }
  }
  return undefined
}

/** Adds to what the run has used, and ends the run if that uses up a budget. */
async function add(
  tx: Transaction,
  run: RunRow,
  used: Amounts,
): Promise<{ readonly run: RunRow; readonly ending?: RunEnding | undefined }> {
  if (KINDS.every((kind) => used[kind] === 0)) return { run }
  const { usage, notices, spent } = spend(run, used)
  await tx.changeRun(run.id, { usage })
  // The use of an ended run still counts, but its stream of events has ended.
  if (run.endedAt !== undefined) return { run: { ...run, usage } }
  await tx.appendEvents(
    run.id,
    notices.map((event) => ({ event })),
  )
  return { run: { ...run, usage }, ending: spent && (await endSpent(tx, run, spent)) }
}

/** Stores that the run ends. Its driver may be another process. */
async function endSpent(tx: Transaction, run: RunRow, spent: SpentBudget): Promise<RunEnding> {
  const ending = run.ending ?? budgetExceeded(spent)
  if (run.ending === undefined) await tx.changeRun(run.id, { ending })
  // If it waits in the queue, nothing drives it.
  await tx.expireInQueue(run.id)
  tx.announce(run.id)
  return ending
}
