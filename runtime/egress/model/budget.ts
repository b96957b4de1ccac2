import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type {
  BudgetRefusal,
  ModelReservation,
  ModelUse,
  ReservationDecision,
} from '../../../contracts/egress-budgets.ts'
import { RequestRefused } from './answers.ts'
import { type MostTokens, mostTokens } from './most-tokens.ts'
import type { ModelEndpoint } from './route.ts'
import { UsageReader } from './usage-reader.ts'

type Json = Readonly<Record<string, unknown>>
type Most = Extract<MostTokens, { ok: true }>

export interface BudgetOptions {
  readonly isMetered: boolean
  /** Asks the API, which alone knows what all processes of the proxy have used. */
  readonly reserve: ((reservation: ModelReservation) => Promise<ReservationDecision>) | undefined
  readonly report: (use: ModelUse) => void
}

const NO_SERVICE = {
  rule: 'proxy-unavailable',
  reason: 'the service that counts the budgets of this run cannot be reached',
  remedy: 'Try again in some seconds.',
} as const

const ENDED = { rule: 'run-ended', reason: 'the run has ended', remedy: 'Start a new run.' } as const

/** A client of a stream gets the usage only if it asks for it. The responses API always sends it. */
export const withUsage = (body: Json, endpoint: ModelEndpoint): Json =>
  endpoint === 'POST /chat/completions' && body['stream'] === true
    ? { ...body, stream_options: { ...Object(body['stream_options']), include_usage: true } }
    : body

/** Reserves the tokens of a request. Throws `RequestRefused`. The account must be closed. */
export async function openAccount(
  body: Json,
  endpoint: ModelEndpoint,
  { isMetered, reserve, report }: BudgetOptions,
): Promise<RequestAccount> {
  const most = mostTokens(body, endpoint)
  if (!isMetered)
    return new RequestAccount(report, { most: most.ok ? { ...most, total: most.input } : NOTHING })
  if (!most.ok) {
    const remedy = 'Name one whole number, so that the budget of the run can be kept.'
    throw new RequestRefused({ rule: 'model', reason: most.reason, remedy })
  }
  const reservation = { id: randomUUID(), tokens: most.total }
  const decision = await reserve?.(reservation).catch(() => {
    // The API may have reserved it.
    report({ reservation: reservation.id, requests: 0, tokens: 0 })
  })
  if (!decision) throw new RequestRefused(NO_SERVICE)
  if (decision.ok) return new RequestAccount(report, { most, reservation: reservation.id })
  if (!decision.refusal) throw new RequestRefused(ENDED)
  throw refusedBy(decision.refusal)
}

const NOTHING: Most = { ok: true, input: 0, total: 0, isBounded: false }

const NAMES = { tokens: 'tokens', model_requests: 'requests to its model' } as const
const TOO_MANY_REQUESTS = 429

function refusedBy({ kind, limit, used, reserved, wanted, isFinal }: BudgetRefusal): RequestRefused {
  const held = reserved > 0 ? `, ${reserved} are reserved by requests in progress` : ''
  const reason = `the run may use ${limit} ${NAMES[kind]} (budget ${kind}), has used ${used}${held}, and this request may use ${wanted}`
  const remedy = isFinal
    ? `The run ends. Start the task again with a larger budget: --budget ${kind}=N.`
    : 'Wait for the other requests, or ask for fewer tokens.'
  return new RequestRefused({ rule: 'budget', reason, remedy }, isFinal ? undefined : TOO_MANY_REQUESTS)
}

/** The use of one request, as far as the proxy has seen it. */
export class RequestAccount {
  readonly #report: (use: ModelUse) => void
  readonly #most: Most
  readonly #reservation: string | undefined
  #isSent = false
  #isRefused = false
  #reader: UsageReader | undefined

  constructor(
    report: (use: ModelUse) => void,
    { most, reservation }: { readonly most: Most; readonly reservation?: string },
  ) {
    this.#report = report
    this.#most = most
    this.#reservation = reservation
  }

  sent(): void {
    this.#isSent = true
  }

  /** A server computes nothing for a request that it refuses. */
  answered({ statusCode = 0, headers }: Pick<IncomingMessage, 'statusCode' | 'headers'>): void {
    this.#isRefused = statusCode >= 300
    this.#reader = new UsageReader(headers['content-type'])
  }

  read(chunk: Buffer): void {
    this.#reader?.add(chunk)
  }

  ended(): void {
    this.#reader?.end()
  }

  /** Reports the use. */
  close(): void {
    const used = this.#isSent && !this.#isRefused
    const tokens = used ? this.#tokens : 0
    const reservation = this.#reservation
    if (!used && reservation === undefined) return
    this.#report({ ...(reservation !== undefined && { reservation }), requests: used ? 1 : 0, tokens })
  }

  /** The usage of the server, or an estimate if there is none. If no part of the response has come, the whole reservation. */
  get #tokens(): number {
    const { input, total, isBounded } = this.#most
    const { isDone = false, tokens, estimate } = this.#reader ?? {}
    if (isDone && tokens !== undefined) return tokens
    if (estimate === undefined) return Math.max(tokens ?? 0, total)
    const seen = input + estimate
    return Math.max(tokens ?? 0, isBounded && this.#reservation !== undefined ? Math.min(seen, total) : seen)
  }
}
