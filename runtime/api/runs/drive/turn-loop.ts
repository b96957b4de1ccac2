import { unlessAborted } from '../../../kit/deadline.ts'
import type { RunRow, TurnRow } from '../../../store/store.ts'
import type { RunDeps } from '../deps.ts'
import { whileHeld } from '../held-run.ts'
import type { LaunchedSandbox } from '../launch/launched-sandbox.ts'
import { takeTurn } from './begin-run.ts'
import type { Serving } from './departure.ts'
import type { Position, TurnEnded } from './read-position.ts'

export type TurnLoopParts = {
  readonly deps: Pick<RunDeps, 'store' | 'clock'>
  readonly run: RunRow
  /** Ends the loop. */
  readonly signal: AbortSignal
  /** Whether no turn may begin. `wake` must be called when that ends. @default false */
  readonly isFrozen?: () => boolean
  /** Called when a turn begins or ends. */
  readonly onSign: () => void
  readonly onTurnEnded: (turn: TurnRow, end: TurnEnded) => Promise<void>
}

type Beginning = Pick<Position, 'resumes' | 'ended'> & {
  readonly turn?: TurnRow | undefined
  readonly preface?: string | undefined
}

/** What the sandbox is sent for a turn. */
const promptOf = ({ id, prompt, sentPrompt }: TurnRow) => ({ id, prompt: sentPrompt ?? prompt })

/** Takes the turns of a run one after the other and sends them to its sandbox. */
export class TurnLoop {
  readonly #parts: TurnLoopParts
  readonly #ends = new Map<string, PromiseWithResolvers<TurnEnded>>()
  #active: string | undefined
  /** Taken when the run started, in the same commit. */
  #next: TurnRow | undefined
  /** The same turn continues from the restored session. */
  #nextResumes = false
  /** The same turn, on its way to the sandbox. */
  #sent: Promise<void> | undefined
  /** A turn that another driver saw the end of, and went no further. */
  #endedBefore: Position['ended']
  /** For the first turn that is taken from the queue. */
  #preface: string | undefined
  #wake: () => void = () => undefined

  constructor(parts: TurnLoopParts) {
    this.#parts = parts
  }

  /** No turn works or is about to. */
  get isResting(): boolean {
    return this.#active === undefined && this.#next === undefined
  }

  /** The turn that works. */
  get working(): { readonly id: string; readonly ended: Promise<TurnEnded> } | undefined {
    const id = this.#active
    return id === undefined ? undefined : { id, ended: this.#endOf(id).promise }
  }

  /** Where the loop begins. */
  expect({ turn, resumes = false, ended, preface }: Beginning): void {
    this.#preface = preface
    this.#next = turn
    this.#nextResumes = resumes
    this.#endedBefore = ended
  }

  /** A turn was queued, or the run ends. */
  wake(): void {
    this.#wake()
  }

  ended(turn: TurnEnded): void {
    this.#endOf(turn.turnId).resolve(turn)
  }

  /** Before the run's beginning is committed: nothing that the turn does is answered before. */
  send({ client, turn, resumes = false }: LaunchedSandbox): void {
    this.#sent = turn && client.turns.start(promptOf(turn), this.#parts.signal, { resumes })
    this.#sent?.catch(() => undefined)
  }

  /** Runs until the signal aborts. */
  async run(serving: Serving): Promise<void> {
    const { deps, run, signal, onTurnEnded } = this.#parts
    const before = this.#endedBefore
    if (before) await onTurnEnded(before.turn, before.end)
    while (!signal.aborted) {
      const more = new Promise<void>((resolve) => {
        this.#wake = resolve
      })
      const given = { at: deps.clock().toISOString(), preface: this.#preface }
      const turn = this.#mayNotBegin
        ? undefined
        : (this.#next ?? (await whileHeld(deps.store, run, (tx, current) => takeTurn(tx, current, given))))
      if (turn) this.#preface = undefined
      if (turn) await onTurnEnded(turn, await this.#runTurn(serving, turn))
      else await more
    }
  }

  /** A turn that was sent with the start of the run has begun. */
  get #mayNotBegin(): boolean {
    return this.#sent === undefined && this.#parts.isFrozen?.() === true
  }

  async #runTurn(serving: Serving, turn: TurnRow): Promise<TurnEnded> {
    const { signal, onSign } = this.#parts
    this.#active = turn.id
    const resumes = this.#nextResumes
    this.#next = undefined
    this.#nextResumes = false
    onSign()
    const sent = this.#sent ?? serving.client.turns.start(promptOf(turn), signal, { resumes })
    this.#sent = undefined
    await sent
    const end = await unlessAborted(this.#endOf(turn.id).promise, signal)
    this.#active = undefined
    onSign()
    return end
  }

  /** Who waits for a turn's end may come before or after it. */
  #endOf(turnId: string): PromiseWithResolvers<TurnEnded> {
    const known = this.#ends.get(turnId) ?? Promise.withResolvers<TurnEnded>()
    this.#ends.set(turnId, known)
    return known
  }
}
