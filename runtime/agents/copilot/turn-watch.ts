import type { SessionEvent } from '@github/copilot-sdk'
import type { AgentLimits, Turn, TurnResult } from '../agent.ts'
import { createCallIds } from '../call-ids.ts'
import { AnswerLimit } from './answer-limit.ts'
import type { CopilotConfig } from './model-config.ts'
import { CUT_OFF, FILTERED, failed, refused, toFailure } from './model-failure.ts'
import { refusalEvent, refusalOf } from './refusal.ts'
import type { HandedCall } from './suspended-turn.ts'
import { toHostEvent } from './to-host-event.ts'
import { UnusableCalls } from './unusable-calls.ts'

type WatchOptions = {
  readonly turn: Turn
  readonly limits: AgentLimits
  readonly config: CopilotConfig
  readonly generation: number
}

type SessionError = Extract<SessionEvent, { type: 'session.error' }>['data']

/** State of a running turn: the runtime's events, open calls, timeouts, and the result. */
export class TurnWatch {
  readonly turn: Turn
  readonly nextCallId: () => string
  readonly limit = new AnswerLimit()
  readonly unusableCalls = new UnusableCalls()
  /** Calls of the model's current answer that were handed to us. */
  readonly handed: HandedCall[] = []
  /** Settles once, with the first result. */
  readonly ended: Promise<TurnResult>
  /** Settles when the runtime reports that it is idle. */
  readonly rested: Promise<void>
  isResting = false
  hasEnded = false
  /** Settles when all unusable calls so far are recorded. */
  rejected: Promise<unknown> = Promise.resolve()
  /** Whether the agent has reported the outcome of the task in this turn. */
  hasReported = false

  readonly #config: CopilotConfig
  readonly #limits: AgentLimits
  readonly #resolve: (result: TurnResult) => void
  readonly #resolveRested: () => void
  #turnTimer: NodeJS.Timeout | undefined
  #turnLeftMs: number
  #turnTimedFrom = 0
  #idleTimer: NodeJS.Timeout | undefined
  /** Calls and requests that wait for something else than the model. */
  #pauses = 0
  #frozenRequests = 0
  #error: SessionError | undefined
  /** Why the model ended its last answer. */
  #finishReason: string | undefined
  #refusal: string | undefined

  constructor({ turn, limits, config, generation }: WatchOptions) {
    const ended = Promise.withResolvers<TurnResult>()
    const rested = Promise.withResolvers<void>()
    this.turn = turn
    this.nextCallId = createCallIds(turn.turnId, generation)
    this.ended = ended.promise
    this.rested = rested.promise
    this.#config = config
    this.#limits = limits
    this.#resolve = ended.resolve
    this.#resolveRested = rested.resolve
    this.#turnLeftMs = limits.turnMs
    this.#timeTurn()
    turn.signal.addEventListener('abort', this.#cancel, { once: true })
    if (turn.signal.aborted) this.#cancel()
    this.#touch()
  }

  onEvent(event: SessionEvent): void {
    this.#touch()
    // The runtime asks the model again when all calls of an answer have ended.
    if (event.type === 'assistant.turn_start') this.handed.length = 0
    const refusal = refusalOf(event)
    if (refusal !== undefined) this.#refusal = refusal
    if (event.type === 'session.error') this.#error = event.data
    if (event.type === 'assistant.usage') this.#finishReason = event.data.finishReason
    const hostEvent = refusal === undefined ? toHostEvent(event) : refusalEvent(refusal)
    if (hostEvent && !this.limit.isStopping && !this.turn.signal.aborted) this.turn.emit(hostEvent)
    if (event.type !== 'session.idle') return
    this.isResting = true
    this.#resolveRested()
    this.end(this.#resultWhenIdle())
  }

  #resultWhenIdle(): TurnResult {
    const unfinished = this.hasReported ? undefined : UNFINISHED.get(this.#finishReason ?? '')
    // The runtime reports an empty answer as an error without a status.
    if (unfinished && this.#error?.statusCode === undefined) return unfinished
    return this.#error === undefined ? { state: 'completed' } : this.#failureOf(this.#error)
  }

  /**
   * The runtime reports an answer that has only a refusal as a missing answer. The failure is made when the turn ends,
   * because the refusal may arrive after the error.
   */
  #failureOf(error: SessionError): TurnResult {
    const { statusCode } = error
    if (this.#refusal === undefined || statusCode !== undefined) return toFailure(error, this.#config)
    return refused(this.#refusal)
  }

  /** The turn continues with another prompt, so an error of the earlier answer is dropped. */
  goOn(): void {
    this.#error = undefined
    this.#touch()
  }

  /** Ends the turn. Only the first result counts. */
  end(result: TurnResult): void {
    this.hasEnded = true
    this.#resolve(result)
  }

  /** The model is silent while it waits for a tool result, so the idle timeout is paused. */
  async whileCallIsOpen<T>(work: () => Promise<T>): Promise<T> {
    const resume = this.#pauseIdle()
    try {
      return await work()
    } finally {
      resume()
    }
  }

  /** A request to the model waits. While a person has frozen the run, its turn does not end by time. */
  pause({ isFrozen }: { readonly isFrozen: boolean }): () => void {
    const resume = this.#pauseIdle()
    if (isFrozen) this.#freeze(1)
    return () => {
      if (isFrozen) this.#freeze(-1)
      resume()
    }
  }

  dispose(): void {
    this.hasEnded = true
    clearTimeout(this.#turnTimer)
    clearTimeout(this.#idleTimer)
    this.#idleTimer = undefined
    this.turn.signal.removeEventListener('abort', this.#cancel)
  }

  readonly #cancel = () => this.end({ state: 'cancelled' })

  #pauseIdle(): () => void {
    this.#pauses += 1
    this.#touch()
    return () => {
      this.#pauses -= 1
      this.#touch()
    }
  }

  #freeze(change: 1 | -1): void {
    const wasFrozen = this.#frozenRequests > 0
    this.#frozenRequests += change
    if (wasFrozen === this.#frozenRequests > 0) return
    if (wasFrozen) this.#timeTurn()
    else {
      clearTimeout(this.#turnTimer)
      this.#turnLeftMs -= performance.now() - this.#turnTimedFrom
    }
  }

  #timeTurn(): void {
    if (this.hasEnded) return
    this.#turnTimedFrom = performance.now()
    this.#turnTimer = setTimeout(() => this.end(tooLong(this.#limits.turnMs)), this.#turnLeftMs)
  }

  #touch(): void {
    clearTimeout(this.#idleTimer)
    if (this.#pauses > 0 || this.hasEnded) return
    this.#idleTimer = setTimeout(() => this.end(stalled(this.#limits.idleMs)), this.#limits.idleMs)
  }
}

/** Finish reasons of answers that the model did not complete. */
const UNFINISHED: ReadonlyMap<string, TurnResult> = new Map([
  ['length', CUT_OFF],
  ['content_filter', FILTERED],
])

const tooLong = (ms: number) => failed('deadline_exceeded', `The turn took longer than ${ms / 1000} s`)

const stalled = (ms: number) =>
  failed('agent_stall_timeout', `The model sent nothing for ${ms / 1000} s. Check that its server responds.`)
