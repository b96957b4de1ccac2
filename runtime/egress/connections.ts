import type { Socket } from 'node:net'
import type { EgressBudget, EgressDestination, EgressGeneration } from '../../contracts/egress.ts'
import type { ModelUse, ShareDecision, ShareRequest } from '../../contracts/egress-budgets.ts'
import type { RunPhase } from '../../contracts/policy.ts'
import { ByteAllowance } from './allowance.ts'
import { AnomalyDetector } from './anomalies.ts'
import { decide, type Question, refusalSentence, shownPath } from './decide.ts'
import { Ledger, type LedgerOptions, type Refused } from './ledger.ts'
import type { EgressLimits } from './limits.ts'
import type { Refusal } from './refusals.ts'
import { RequestCounts } from './request-counts.ts'
import { SentBytes } from './sent-bytes.ts'

/** An open connection of a sandbox: the client's socket and, once dialled, the destination's. */
export interface OpenConnection {
  readonly question: Question
  readonly client: Socket
  /** The phase in which it was opened. */
  readonly phase: RunPhase
  /** The other side is the process that inserts credentials. Its summary lists the connection. */
  readonly isPassedOn?: boolean
  /** The entry that allows it. Absent for the server of a model. */
  readonly destination?: EgressDestination | undefined
  upstream?: Socket
}

export interface Beginning {
  readonly isPassedOn?: boolean
  readonly destination?: EgressDestination | undefined
}

export interface ConnectionsOptions extends Omit<LedgerOptions, 'runId' | 'generation'> {
  /** Takes a share of the bytes of a run. Without it, this process alone serves the sandbox. */
  readonly takeShare?: TakeShare | undefined
}

export type TakeShare = (request: ShareRequest) => Promise<ShareDecision>

/** The connections of one sandbox, each judged by the newest state. */
export class Connections {
  /** The sandbox itself, also after it has ended. */
  readonly sandbox: Pick<EgressGeneration, 'runId' | 'generation'>
  readonly #limits: EgressLimits
  readonly #ledger: Ledger
  readonly #anomalies: AnomalyDetector
  readonly #open = new Set<OpenConnection>()
  readonly #allowance: ByteAllowance
  readonly #requests: RequestCounts
  readonly #sent: SentBytes
  #reportedBytes = 0
  #generation: EgressGeneration | undefined
  #phase: RunPhase

  constructor(generation: EgressGeneration, options: ConnectionsOptions) {
    this.#generation = generation
    this.#phase = generation.phase
    this.#limits = options.limits
    const of = { runId: generation.runId, generation: generation.generation }
    this.sandbox = of
    this.#anomalies = new AnomalyDetector({
      now: options.now,
      report: (data) => options.report({ type: 'anomaly', ...of, data }),
    })
    this.#ledger = new Ledger({ ...options, ...of })
    const reportBudget = (data: EgressBudget) => options.report({ type: 'budget', ...of, data })
    this.#requests = new RequestCounts(options.limits.requestsPerHost, reportBudget)
    this.#sent = new SentBytes(reportBudget)
    const { limits, takeShare } = options
    const left = Math.min(generation.bytesLeft ?? Number.POSITIVE_INFINITY, limits.bytesPerRun)
    const shares = takeShare && {
      take: (missing: number) => takeShare({ ...of, missing }),
      settle: (unused: number) => options.report({ type: 'shares-settled', ...of, data: { unused } }),
    }
    this.#allowance = new ByteAllowance({ limits, left, shares })
  }

  /** The sandbox in the newest state. */
  get generation(): EgressGeneration | undefined {
    return this.#generation
  }

  get count(): number {
    return this.#open.size
  }

  decide(question: Question) {
    return decide(this.#generation, question)
  }

  /** Why a host that may be reached gets no more requests. */
  overuse(question: Question, destination?: EgressDestination): Refusal | undefined {
    return this.#requests.refusalOf(question) ?? (destination && this.#sent.refusalOf(destination))
  }

  /** Opens a connection. `end` must be called when it has ended. */
  begin(
    question: Question,
    client: Socket,
    { isPassedOn = false, destination }: Beginning = {},
  ): OpenConnection {
    const connection: OpenConnection = { question, client, isPassedOn, destination, phase: this.#phase }
    this.#open.add(connection)
    this.#allowance.refill(this.#bytes)
    this.#requests.add(question)
    // The process that inserts credentials sees the requests of a connection that is passed on to it.
    if (!isPassedOn) this.#notice(question)
    return connection
  }

  #notice({ host, port }: Question): void {
    this.#anomalies.reached(host.name, port)
    this.#anomalies.named(host.name)
  }

  /** Counts bytes before they are sent. Returns a refusal if they exceed the limit of the entry: they must not be sent then. */
  spend({ destination }: OpenConnection, bytes: number): Refusal | undefined {
    return destination && this.#sent.add(destination, bytes)
  }

  /** The same for a connection that is passed on unread, which is closed then. */
  sends(connection: OpenConnection, bytes: number): boolean {
    if (!this.#open.has(connection)) return false
    const refusal = this.spend(connection, bytes)
    if (refusal) this.#close(connection, refusal)
    return refusal === undefined
  }

  end(connection: OpenConnection): void {
    if (!this.#open.delete(connection)) return
    if (!connection.upstream) return
    connection.upstream.destroySoon()
    const { host, port } = connection.question
    const traffic = { host: host.name, port, phase: connection.phase, ...bytesOf(connection) }
    this.#ledger.ended(traffic, { isListed: !connection.isPassedOn })
  }

  /** Records a refusal, and returns the sentence for the client. */
  refuse(refused: Refused): string {
    this.#ledger.refuse(refused, this.#phase)
    this.#anomalies.named(refused.host)
    return refusalSentence(refused.host, refused.port, refused)
  }

  /** Reports the use of a request to the model, also if the sandbox has ended since. */
  usedModel(use: ModelUse): void {
    this.#ledger.usedModel(use)
  }

  /** Takes a new state. Closes each connection that it would not open. */
  judge(generation: EgressGeneration | undefined): void {
    this.#generation = generation
    if (generation) this.#phase = generation.phase
    for (const connection of [...this.#open]) {
      const decision = decide(generation, connection.question)
      if (!decision.ok) this.#close(connection, decision.refusal)
      else if (outlivesItsPhase(connection, this.#phase)) this.#close(connection, PHASE_OVER)
    }
  }

  /** Closes all connections if the run has used up its bytes, and reports its bytes and repeated refusals. */
  meter(): void {
    this.#ledger.flush()
    this.#reportUsage()
    if (this.#open.size > 0) this.#allowance.refill(this.#bytes)
    if (!this.isSpent) return
    for (const connection of [...this.#open]) this.#close(connection, this.spentRefusal)
  }

  get isSpent(): boolean {
    return this.#allowance.isSpent(this.#bytes)
  }

  get #bytes(): number {
    let bytes = this.#ledger.bytes
    for (const connection of this.#open) {
      const { sentBytes, receivedBytes } = bytesOf(connection)
      bytes += sentBytes + receivedBytes
    }
    return bytes
  }

  /** What the connections hold for slow readers. */
  buffered(): { readonly bytes: number; readonly close: () => void }[] {
    return [...this.#open].map((connection) => ({
      bytes: heldBy(connection.client) + heldBy(connection.upstream),
      close: () => this.#close(connection, SLOW_READER),
    }))
  }

  #reportUsage(): void {
    const bytes = this.#bytes
    if (bytes === this.#reportedBytes) return
    this.#ledger.used(bytes - this.#reportedBytes)
    this.#reportedBytes = bytes
  }

  get spentRefusal(): Refusal {
    if (!this.#allowance.isLast) return NO_SHARE
    const reason = `the run has sent and received ${this.#limits.bytesPerRun} bytes, its limit`
    return { rule: 'budget', reason, remedy: 'Start a new run.' }
  }

  /** Ends all connections and reports the sums. */
  close(): void {
    this.judge(undefined)
    this.#reportUsage()
    this.#allowance.close(this.#bytes)
    this.#ledger.close()
  }

  #close(connection: OpenConnection, refusal: Refusal): void {
    const { host, port, request } = connection.question
    const asked = request && { method: request.method, path: shownPath(request.path.spelling) }
    if (this.#generation) this.refuse({ ...refusal, host: host.name, port, ...asked })
    connection.client.destroy()
    this.end(connection)
    connection.upstream?.destroy()
  }
}

/**
 * What was opened in another phase and can carry anything. A command could keep it for later. Requests that the proxy reads
 * are judged by the new phase alone.
 */
const outlivesItsPhase = ({ phase, isPassedOn, question }: OpenConnection, current: RunPhase): boolean =>
  phase !== current && question.caller === 'commands' && isPassedOn !== true && isUnread(question)

const isUnread = ({ protocol, request }: Question): boolean =>
  protocol === 'tls' || request?.needs.includes('websocket') === true

const PHASE_OVER: Refusal = {
  rule: 'phase',
  reason:
    'the connection was opened in the phase setup, which is over, and the proxy cannot see what it carries',
  remedy: 'Connect again.',
}

const NO_SHARE: Refusal = {
  rule: 'proxy-unavailable',
  reason: 'the egress proxy cannot reach the service that counts the bytes of this run',
  remedy: 'Try again in some seconds.',
}

const SLOW_READER: Refusal = {
  rule: 'too-many-connections',
  reason: 'the egress proxy holds too many bytes for readers that are too slow',
  remedy: 'Read responses as they arrive, or open fewer connections.',
}

const heldBy = (socket: Socket | undefined) => (socket ? socket.readableLength + socket.writableLength : 0)

const bytesOf = ({ upstream }: OpenConnection) => ({
  sentBytes: upstream?.bytesWritten ?? 0,
  receivedBytes: upstream?.bytesRead ?? 0,
})
