import { bestEffort } from '../../../kit/best-effort.ts'
import { SandboxError } from '../../../kit/errors.ts'
import type { Log } from '../../../kit/log.ts'
import { present } from '../../../kit/present.ts'
import type { ApprovalRow, RunRow, TurnRow } from '../../../store/store.ts'
import type { SpentBudget } from '../budgets/spend.ts'
import { watchBudgets } from '../budgets/wall-clock.ts'
import type { RunDeps } from '../deps.ts'
import { isDrivenAs } from '../held-run.ts'
import { type Committed, ForgedEvent } from '../ingest/commit-batch.ts'
import type { Relay } from '../ingest/relay.ts'
import { type Requested, requestAgain } from '../launch/request.ts'
import { causeOf, lossOf } from '../launch/sandbox-loss.ts'
import { WaitsForRoom } from '../queue/no-room.ts'
import type { ActiveRunParts, Begin } from './active-run-parts.ts'
import { activeTimeOf } from './active-time.ts'
import { beginRun } from './begin-run.ts'
import { Departure, probe, type Serving } from './departure.ts'
import {
  budgetExceeded,
  type Ending,
  failureOf,
  finishRun,
  isLoss,
  overdue,
  WITHOUT_REASON,
} from './finish.ts'
import { obtainSandbox } from './obtain-sandbox.ts'
import { openRelay } from './open-relay.ts'
import { countRetries, type Patience, patiently, patientStore } from './patient-store.ts'
import type { Position, TurnEnded } from './read-position.ts'
import { repeatRequests } from './repeat-requests.ts'
import { endingAfterLoss } from './requeue.ts'
import { RestrictedRun } from './restricted-run.ts'
import { SetupCommands } from './setup-commands.ts'
import { followOthers, hearOthers } from './shared-run.ts'
import { logUnsuspended, suspend, works } from './suspend.ts'
import { TurnCheckpoints } from './turn-checkpoints.ts'
import { endingAfterTurn, endingWhenIdle } from './turn-ending.ts'
import { TurnLoop } from './turn-loop.ts'
import { type Alarms, createWatchdog } from './watchdog.ts'

/**
 * Drives one run from its sandbox to its end, or until it continues without this sandbox. A run ends once, with the
 * first reason that is given. A run that another process drove is continued from its stored position.
 */
export class ActiveRun {
  readonly run: RunRow
  /** Settles when the run is final. */
  readonly finished: Promise<void>
  readonly #deps: RunDeps
  readonly #parts: ActiveRunParts
  readonly #log: Log
  readonly #interrupted = new AbortController()
  readonly #departure: Departure
  readonly #ready = Promise.withResolvers<Serving>()
  readonly #watchdog: ReturnType<typeof createWatchdog>
  readonly #pending = new Set<string>()
  readonly #commands = new Set<string>()
  readonly #turns: TurnLoop
  readonly #checkpoints: TurnCheckpoints
  readonly #restricted: RestrictedRun
  readonly #setup: SetupCommands
  readonly #obtained = Promise.withResolvers<void>()
  #ending: Ending | undefined
  readonly #abandoned = new AbortController()
  readonly #patience: Patience
  #usedAt: string | undefined
  #suspendAskedAt: string | undefined
  #waitsForPeople = false
  #suspending: Promise<void> | undefined
  #isForged = false
  #request: Requested | undefined
  #hasLeft = false
  /** Calls that this sandbox has not announced again. It gets their decisions when it has. */
  readonly #carried: Set<string>
  readonly #isDriven = (current: RunRow) =>
    isDrivenAs(this.run, this.#request?.claim.generation ?? this.run.generation, current)
  readonly #endSpent = (budget?: SpentBudget) => budget && this.end(budgetExceeded(budget))

  constructor(given: RunDeps, parts: ActiveRunParts, { run, after, request }: Begin) {
    this.run = run
    this.#request = request
    this.#suspendAskedAt = run.suspendAskedAt
    this.#carried = new Set(run.carriedCalls)
    this.#log = given.log.child({ runId: run.id })
    this.#patience = { signal: this.#abandoned.signal, log: this.#log, onRetry: countRetries(given) }
    const deps = { ...given, store: patientStore(given.store, this.#patience) }
    this.#deps = deps
    this.#parts = parts
    const signal = this.#interrupted.signal
    const own = { deps, run, signal, log: this.#log }
    this.#restricted = new RestrictedRun({ ...own, onThawed: () => this.notifyTurn() })
    this.#setup = new SetupCommands({ ...own, audit: parts.audit, restricted: this.#restricted })
    this.#turns = new TurnLoop({
      deps,
      run,
      signal,
      isFrozen: () => this.#restricted.isFrozen,
      onSign: () => this.#watchdog.sign(),
      onTurnEnded: (turn, end) => this.#onTurnEnded(turn, end),
    })
    this.#departure = new Departure(deps, run, this.#log)
    this.#checkpoints = new TurnCheckpoints(own, () => ({
      turn: this.#turns.working?.id,
      isBusy: this.#commands.size + this.#carried.size > 0 || this.isSuspending,
    }))
    this.#ready.promise.catch(() => undefined)
    this.#watchdog = createWatchdog(
      { limits: deps.limits, activeTime: activeTimeOf(deps, run) },
      () => ({
        working: this.#turns.working !== undefined || this.#commands.size > 0,
        // The time in which nothing may happen does not count.
        waiting: this.#pending.size > 0 || this.#restricted.isFrozen,
        quiet: this.isQuiet && !this.#restricted.isFrozen,
      }),
      this.#alarms(),
    )
    const unfollow = followOthers(deps, run.id, () => this.#hearOthers())
    this.finished = Promise.resolve(after)
      .then(() => this.#drive())
      .catch((error) => this.#log.error('the run could not be finished', { error }))
      .finally(unfollow)
  }

  #alarms(): Alarms {
    const { limits } = this.#deps
    return {
      onExpired: (requestId) => this.#orFail(this.#expire(requestId)),
      onStalled: () => this.#orFail(probe(this.#ready.promise, limits.stallTimeoutMs)),
      onOverdue: () => this.end(overdue(limits.runTimeoutMs)),
      onIdle: () => this.#orFail(this.#endIdle()),
      onQuiet: () => this.#trySuspend(),
    }
  }

  /** Work outside the loop that drives the run. If it fails, the run fails. */
  #orFail(work: Promise<unknown>): void {
    work.catch((error) => this.#fail(error))
  }

  #trySuspend(): void {
    this.suspend().catch((error) => logUnsuspended(this.#log, error))
  }

  async #expire(requestId: string): Promise<void> {
    const { approvals } = this.#parts
    const decision = await patiently(() => approvals.expire(this.run.id, requestId), this.#patience)
    if (decision) await this.settleApproval(requestId, [decision])
  }

  async #endIdle(): Promise<void> {
    this.#watchdog.sign()
    const ending = await endingWhenIdle(this.#deps, this.run)
    if (this.#turns.isResting) this.end(ending)
  }

  /** Resolves when the sandbox serves, or when it runs setup commands. Rejects as `serving`. */
  get obtained() {
    return Promise.race([this.#obtained.promise, this.serving])
  }

  /** Resolves when the sandbox serves. Rejects with `run_ended` if it never will. */
  get serving() {
    return this.#ready.promise
  }

  /** Another process may drive the run, or this one again by another driver. */
  get isAbandoned(): boolean {
    return this.#abandoned.signal.aborted
  }

  /** The store has the run without its sandbox and this driver, so only the sandbox remains to be released. */
  get hasLeft(): boolean {
    return this.#hasLeft
  }

  /** The sandbox is about to be given back: nothing may be changed in it. */
  get isSuspending(): boolean {
    return this.#suspending !== undefined || this.#hasLeft
  }

  end(reason: Ending): void {
    if (this.#hasLeft) return
    this.#ending ??= reason
    this.#interrupted.abort(new SandboxError('run_ended', 'the run ended'))
    this.#turns.wake()
  }

  /** Leaves the run and its sandbox as they are: another process drives them, or will. */
  abandon(): void {
    this.#abandoned.abort()
    this.#interrupted.abort(new SandboxError('run_ended', 'the run ended'))
    this.#turns.wake()
    this.end({ state: 'failed', code: 'unavailable', message: 'another process drives the run' })
  }

  /** Nothing goes on in the sandbox until a person acts. */
  get isQuiet(): boolean {
    return (
      this.run.kind === 'agent' &&
      this.#commands.size === 0 &&
      (this.#waitsForPeople || this.#turns.isResting)
    )
  }

  /**
   * Saves a run that waits and gives its sandbox back. `conflict` if it does not wait; after an error the run waits as
   * before.
   */
  suspend(): Promise<void> {
    if (this.#suspending === undefined && !this.isQuiet) return Promise.reject(works(this.run))
    this.#suspending ??= this.#suspend().finally(() => {
      this.#suspending = undefined
    })
    return this.#suspending
  }

  async #suspend(): Promise<void> {
    const serving = await this.#ready.promise
    try {
      await suspend(this.#deps, this.run, serving.client)
    } catch (error) {
      this.#suspending = undefined
      // Decisions and turns that came during the save did not reach the sandbox.
      await this.#hearOthers()
      throw error
    }
    await this.#leaveFor(() => this.#departure.giveBack(serving, 'suspended'))
  }

  /** The store has the run without its sandbox: parts from that, and leaves the run. */
  async #leaveFor(part: () => Promise<void>): Promise<void> {
    this.#hasLeft = true
    try {
      await bestEffort(this.#log, 'give the sandbox back', part)
    } finally {
      this.abandon()
    }
  }

  notifyTurn(): void {
    if (!this.isSuspending) this.#turns.wake()
  }

  notifyCommand(commandId: string): void {
    this.#commands.add(commandId)
    this.#watchdog.sign()
  }

  sign(): void {
    this.#watchdog.sign()
  }

  /** Sends a decision to the sandbox. The decision is already stored. */
  async settleApproval(requestId: string, decisions: Parameters<Relay['post']>[0]): Promise<void> {
    // The decision stays in the store, for the next sandbox, or for this one if it stays.
    if (this.#suspending !== undefined) return
    this.#waitsForPeople = false
    this.#pending.delete(requestId)
    this.#watchdog.sign()
    const { relay } = await this.#ready.promise
    await this.#checkpoints.saved
    const announced = decisions.filter(({ callId }) => !this.#carried.has(callId))
    if (announced.length > 0) await relay.post(announced)
  }

  async #drive(): Promise<void> {
    let serving: Serving | undefined
    try {
      serving = await this.#serve()
      await this.#turns.run(serving)
    } catch (error) {
      if (error instanceof WaitsForRoom) this.abandon()
      else await this.#fail(error)
    }
    this.#ready.reject(new SandboxError('run_ended', 'the run ended'))
    this.#watchdog.stop()
    this.#restricted.stop()
    try {
      await this.#finish(serving ?? this.#setup.serving)
    } catch (error) {
      if (!this.isAbandoned) throw error
      await this.#departure.leave()
    }
    // If the run was suspended while it was handed over, nobody else gives the sandbox back.
    await this.#suspending?.catch(() => undefined)
  }

  /** Releases the sandbox and stores the end of the run, unless another process drives the run. */
  async #finish(serving: Serving | undefined): Promise<void> {
    // The launch gave the row a generation, which names the claim of the sandbox.
    const current = this.isAbandoned ? undefined : await this.#deps.store.readRun(this.run.id)
    if (this.#hasLeft || this.isAbandoned || !current || !this.#isDriven(current))
      return this.#departure.leave()
    // An end that was decided elsewhere stays in force.
    const decided = (current.ending as Ending | undefined) ?? this.#ending ?? WITHOUT_REASON
    const turnId = this.#turns.working?.id
    const isLost = isLoss(decided) && !this.#isForged
    const part = isLost && (await this.#departure.requeue(this.#parts, decided, { current, serving, turnId }))
    if (part) return this.#leaveFor(part)
    const ending = this.#isForged ? decided : await endingAfterLoss(this.#deps, current, decided)
    const turn = present({ turn: this.#turns.working })
    const events = await this.#departure.conclude(current, serving, { ending, ...turn })
    await finishRun(this.#deps, this.#parts, {
      runId: this.run.id,
      ending,
      events,
      ...(serving && { released: ending.state === 'failed' ? ending.code : ending.state }),
      onlyIf: (row) => this.#isDriven(row),
    })
  }

  /** Other processes take turns, commands, decisions and the end of the run too. */
  async #hearOthers(): Promise<void> {
    const { run, commands, decided } = await hearOthers(this.#deps.store, this.run.id, this.#pending)
    if (run?.ending !== undefined) this.end(run.ending)
    if (run?.usedAt !== this.#usedAt) this.#watchdog.sign()
    this.#usedAt = run?.usedAt
    if (run?.suspendAskedAt !== this.#suspendAskedAt) {
      this.#suspendAskedAt = run?.suspendAskedAt
      if (this.#suspending === undefined) this.#trySuspend()
    }
    for (const id of commands) if (!this.#commands.has(id)) this.notifyCommand(id)
    this.notifyTurn()
    for (const { requestId, decision } of decided) await this.settleApproval(requestId, [decision])
  }

  async #serve(): Promise<Serving> {
    if (this.run.state === 'starting') this.#request ??= await requestAgain(this.#deps, this.run)
    const given = { run: this.run, request: this.#request, signal: this.#interrupted.signal }
    const obtained = await obtainSandbox(this.#deps, this.#parts, given)
    const { launched, position: resumed } = obtained
    this.#departure.launched = launched
    void lossOf(launched).then((loss) => this.#fail(loss))
    // The events that the sandbox has sent so far are read in parallel, and committed afterwards.
    const beginning = { ...launched, sendTurn: () => this.#turns.send(launched) }
    const setsUp = !resumed && this.#setup.isNeeded
    const begun = resumed || setsUp ? undefined : beginRun(this.#deps, this.run, beginning)
    if (setsUp) this.#obtained.resolve()
    const relay = openRelay(this.run, obtained, {
      begun,
      onCommitted: (committed) => this.#onCommitted(committed),
      heldUntil: this.#restricted.heldUntil,
      beforePost: (to, decisions) => this.#checkpoints.beforePost(launched, to, decisions),
      ...{ signal: this.#departure.relayStop.signal, log: this.#log },
      onBroken: () => this.#deps.metrics?.cutStream('sandbox_broken'),
    })
    this.#departure.relaying = relay.run().catch((error) => this.#fail(error))
    const serving = { ...launched, relay }
    if (setsUp) await this.#setup.begin(serving)
    await begun
    this.#turns.expect(launched)
    this.#watchdog.serve()
    this.#ready.resolve(serving)
    if (!setsUp) this.#restricted.serve(serving, !resumed)
    this.#orFail(watchBudgets(this.#deps, this.run, this.#interrupted.signal).then(this.#endSpent))
    if (resumed) await this.#catchUp(serving, resumed)
    return serving
  }

  async #catchUp(serving: Serving, resumed: Position): Promise<void> {
    if (this.run.ending !== undefined) return this.end(this.run.ending)
    this.#turns.expect(resumed)
    this.#expect(resumed.pending)
    const waits = this.run.state === 'waiting' || this.run.state === 'suspending'
    this.#waitsForPeople = waits && this.run.waiting?.for !== 'turn'
    const given = { run: this.run, carried: this.#carried, signal: this.#interrupted.signal }
    await repeatRequests(serving, resumed, { ...given, onCommand: (id) => this.notifyCommand(id) })
  }

  /** A checkpoint follows every turn; then the run ends, unless there is or may be more to do. */
  async #onTurnEnded(turn: TurnRow, end: TurnEnded): Promise<void> {
    await this.#departure.save(await this.serving)
    const ending = await endingAfterTurn(this.#deps, this.run, { turn, end })
    if (ending?.state === 'failed') await this.#fail(new SandboxError(ending.code, ending.message))
    else if (ending) this.end(ending)
  }

  #onCommitted(committed: Committed): void {
    for (const { callId } of committed.decisions) this.#carried.delete(callId)
    this.#waitsForPeople = committed.waitsForPeople
    this.#watchdog.sign()
    this.#endSpent(committed.spent)
    this.#expect(committed.approvals)
    for (const turn of committed.endedTurns) this.#turns.ended(turn)
    for (const commandId of committed.endedCommands) this.#commands.delete(commandId)
    this.#setup.ended(committed.endedCommands)
  }

  #expect(approvals: readonly ApprovalRow[]): void {
    for (const { requestId, expiresAt } of approvals) {
      this.#pending.add(requestId)
      this.#watchdog.expireAt(requestId, expiresAt)
    }
  }

  async #fail(error: unknown): Promise<void> {
    if (this.#ending !== undefined || this.#hasLeft) return
    if (error instanceof ForgedEvent) this.#isForged = true
    const { signal } = this.#interrupted
    const { launched } = this.#departure
    const cause = launched ? await causeOf(error, launched, { signal }) : error
    this.end(failureOf(cause, this.#log))
  }
}
