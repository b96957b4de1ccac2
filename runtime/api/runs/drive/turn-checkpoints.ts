import type { CallDecision } from '../../../../contracts/decisions.ts'
import { withTimeout } from '../../../kit/deadline.ts'
import type { Log } from '../../../kit/log.ts'
import type { RunRow } from '../../../store/store.ts'
import type { RunDeps } from '../deps.ts'
import { whileHeld } from '../held-run.ts'
import type { Relay } from '../ingest/relay.ts'
import { promote, saveParts } from './checkpoint.ts'
import type { Serving } from './departure.ts'

/** A call waits for its decision while the checkpoint is made, so this is also the longest delay of a call. */
const SAVE_TIMEOUT_MS = 30_000
/** AgentHost waits longer than the save may take, or it would refuse the calls while their decisions are on the way. */
const DECISION_MARGIN_MS = 30_000

type Parts = {
  readonly deps: Pick<RunDeps, 'store' | 'clock' | 'limits'>
  readonly run: RunRow
  /** Ends with the driver's work on the run. */
  readonly signal: AbortSignal
  readonly log: Log
}

type Work = {
  /** The turn that works. */
  readonly turn: string | undefined
  /** Whether something changes the sandbox that is no call of the agent, or a call of the last sandbox is still open. */
  readonly isBusy: boolean
}

/**
 * Makes checkpoints in the middle of a turn, between two calls of the agent: after the next calls are announced and stored,
 * and before their decisions are sent. No call runs then, and the agent's session holds the announced calls as open.
 */
export class TurnCheckpoints {
  readonly #parts: Parts
  readonly #work: () => Work
  #turn: string | undefined
  #lastAt = performance.now()
  #saving: Promise<void> = Promise.resolve()

  constructor(parts: Parts, work: () => Work) {
    this.#parts = parts
    this.#work = work
  }

  /** Resolves when no checkpoint is being made. Until then no call may be released. */
  get saved(): Promise<void> {
    return this.#saving
  }

  /** Called with decisions that are stored and not sent yet. Never rejects: a failed checkpoint is logged. */
  beforePost(
    serving: Pick<Serving, 'client'>,
    relay: Relay,
    decisions: readonly CallDecision[],
  ): Promise<void> {
    if (!this.#isDue(decisions)) return Promise.resolve()
    this.#lastAt = performance.now()
    const { log } = this.#parts
    this.#saving = this.#save(serving, relay, decisions).catch((error: unknown) =>
      log.warn('the checkpoint in the middle of the turn failed', { error }),
    )
    return this.#saving
  }

  /** The state at the start of a turn is in the checkpoint after the turn before. */
  #isDue(decisions: readonly CallDecision[]): boolean {
    const { deps, signal } = this.#parts
    const { turn, isBusy } = this.#work()
    const now = performance.now()
    if (turn !== this.#turn) {
      this.#turn = turn
      this.#lastAt = now
    }
    return (
      turn !== undefined &&
      !signal.aborted &&
      now - this.#lastAt >= deps.limits.checkpointEveryMs &&
      decisions.some(isFinal) &&
      !isBusy
    )
  }

  async #save(
    { client }: Pick<Serving, 'client'>,
    relay: Relay,
    decisions: readonly CallDecision[],
  ): Promise<void> {
    const { deps, run, signal } = this.#parts
    const openCalls = await this.#openCalls(decisions)
    if (openCalls === undefined) return
    const until = new Date(deps.clock().getTime() + SAVE_TIMEOUT_MS + DECISION_MARGIN_MS).toISOString()
    const pending = decisions
      .filter(isFinal)
      .map(({ callId }) => ({ callId, outcome: 'pending', until }) as const)
    const soon = withTimeout(SAVE_TIMEOUT_MS, signal)
    await relay.post(pending, soon)
    const saved = await saveParts(deps, run, { client, signal: soon })
    await whileHeld(deps.store, run, async (tx, current) => {
      if (current.state !== 'running' || current.ending !== undefined) return
      const facts = await promote(tx, current, { saved, at: deps.clock().toISOString() })
      const checkpoint = { sequence: current.lastSequence, ...facts.checkpoint, openCalls }
      await tx.changeRun(run.id, { ...facts, checkpoint })
    })
  }

  /** The open calls of the agent. Undefined if one of them has its decision already, and may run. */
  async #openCalls(decisions: readonly CallDecision[]): Promise<string[] | undefined> {
    const { deps, run } = this.#parts
    const held = new Set(decisions.map(({ callId }) => callId))
    const calls = await deps.store.transaction((tx) => tx.listCalls(run.id, ['open', 'released', 'refused']))
    const own = calls.filter(({ actor }) => actor === undefined)
    const runs = own.some(({ callId, state }) => state !== 'open' && !held.has(callId))
    return runs ? undefined : own.map(({ callId }) => callId)
  }
}

const isFinal = ({ outcome }: CallDecision) => outcome !== 'pending'
