import { unlessAborted, withTimeout } from '../../../kit/deadline.ts'
import { SandboxError } from '../../../kit/errors.ts'
import type { Log } from '../../../kit/log.ts'
import { present } from '../../../kit/present.ts'
import type { ApprovalRow, RunRow, TurnRow } from '../../../store/store.ts'
import type { AuditTrail } from '../audit-trail.ts'
import { hostCommandOf } from '../command-records.ts'
import type { RunDeps } from '../deps.ts'
import type { Approvals } from '../gates/approvals.ts'
import { isHeld, whileHeld } from '../held-run.ts'
import { BatchCommitter, type Committed } from '../ingest/commit-batch.ts'
import { MAX_EVENT_CHARACTERS } from '../ingest/event-weight.ts'
import { Relay } from '../ingest/relay.ts'
import { attach, discardClaim } from '../launch/attach.ts'
import type { LaunchedSandbox } from '../launch/launch.ts'
import { causeOf, lossOf } from '../launch/sandbox-loss.ts'
import { transition } from '../machine/transition.ts'
import { type Capacity, launchWhenRoom } from '../queue/await-capacity.ts'
import { activeTimeOf } from './active-time.ts'
import { beginRun, takeTurn } from './begin-run.ts'
import { checkpoint } from './checkpoint.ts'
import { type Ending, failureOf, finishRun, overdue } from './finish.ts'
import { type Patience, patiently, patientStore } from './patient-store.ts'
import { type Position, readPosition, type TurnEnded } from './read-position.ts'
import { followOthers, hearOthers } from './shared-run.ts'
import { stopTurn } from './stop-turn.ts'
import { endingAfterTurn, endingWhenIdle } from './turn-ending.ts'
import { createWatchdog } from './watchdog.ts'

export type ActiveRunParts = {
  readonly audit: AuditTrail
  readonly approvals: Approvals
  readonly capacity: Capacity
}

type Serving = LaunchedSandbox & { readonly relay: Relay }

/** How long a stalled sandbox may take to answer. */
const PROBE_TIMEOUT_MS = 10_000

/**
 * Drives one run from its sandbox to its end. It ends once: the first reason stands, whoever gives it, and
 * whatever the reason is, the sandbox is released and the run is final in the store. A run that another process
 * drove is taken up where the store has it; one that this process may not drive any longer is left as it is.
 */
export class ActiveRun {
  readonly run: RunRow
  /** Settles when the run is final. */
  readonly finished: Promise<void>
  readonly #deps: RunDeps
  readonly #parts: ActiveRunParts
  readonly #log: Log
  readonly #interrupted = new AbortController()
  readonly #relayStop = new AbortController()
  readonly #ready = Promise.withResolvers<Serving>()
  readonly #watchdog: ReturnType<typeof createWatchdog>
  /** Requests that wait for a person. */
  readonly #pending = new Set<string>()
  readonly #commands = new Set<string>()
  readonly #turnEnds = new Map<string, PromiseWithResolvers<TurnEnded>>()
  #ending: Ending | undefined
  readonly #abandoned = new AbortController()
  readonly #patience: Patience
  #usedAt: string | undefined
  #activeTurn: string | undefined
  /** The sandbox, as soon as it is configured. */
  #launched: LaunchedSandbox | undefined
  #relaying: Promise<void> | undefined
  /** Taken when the run started, in the same commit. */
  #nextTurn: TurnRow | undefined
  /** The same turn, on its way to the sandbox. */
  #sent: Promise<void> | undefined
  /** A turn that another process saw the end of, and went no further. */
  #endedBefore: Position['ended']
  #wake: () => void = () => undefined

  /** `after`: this process drove the run before, and must have let go of it first. */
  constructor(given: RunDeps, parts: ActiveRunParts, { run, after }: { run: RunRow; after?: Promise<void> }) {
    this.run = run
    this.#log = given.log.child({ runId: run.id })
    this.#patience = { signal: this.#abandoned.signal, log: this.#log }
    const deps = { ...given, store: patientStore(given.store, this.#patience) }
    this.#deps = deps
    this.#parts = parts
    this.#ready.promise.catch(() => undefined)
    this.#watchdog = createWatchdog(
      { limits: deps.limits, activeTime: activeTimeOf(deps, run) },
      () => ({
        working: this.#activeTurn !== undefined || this.#commands.size > 0,
        waiting: this.#pending.size > 0,
      }),
      {
        onExpired: (requestId) => this.#expire(requestId),
        onStalled: () => this.#probe(),
        onOverdue: () => this.end(overdue(deps.limits.runTimeoutMs)),
        onIdle: () => this.#endIdle(),
      },
    )
    const unfollow = followOthers(deps, run.id, () => this.#hearOthers())
    this.finished = (after ?? Promise.resolve())
      .then(() => this.#drive())
      .catch((error) => this.#log.error('the run could not be finished', { error }))
      .finally(unfollow)
  }

  /** Resolves when the sandbox serves; rejects with `run_ended` where it never will. */
  get serving(): Promise<Serving> {
    return this.#ready.promise
  }

  /** Another process may drive the run, or this one again by another driver. */
  get isAbandoned(): boolean {
    return this.#abandoned.signal.aborted
  }

  end(reason: Ending): void {
    this.#ending ??= reason
    this.#interrupted.abort(new SandboxError('run_ended', 'the run ended'))
    this.#wake()
  }

  /** Leaves the run and its sandbox as they are: another process drives them, or will. */
  abandon(): void {
    this.#abandoned.abort()
    this.end({ state: 'failed', code: 'unavailable', message: 'another process drives the run' })
  }

  /** A turn was queued. */
  notifyTurn(): void {
    this.#wake()
  }

  notifyCommand(commandId: string): void {
    this.#commands.add(commandId)
    this.#watchdog.sign()
  }

  /** Somebody uses the sandbox: it is not idle. */
  sign(): void {
    this.#watchdog.sign()
  }

  /** Tells the sandbox what was decided; the decision is durable already. */
  async settleApproval(requestId: string, decisions: Parameters<Relay['post']>[0]): Promise<void> {
    this.#pending.delete(requestId)
    this.#watchdog.sign()
    const { relay } = await this.#ready.promise
    await relay.post(decisions)
  }

  async #drive(): Promise<void> {
    let serving: Serving | undefined
    try {
      serving = await this.#serve()
      await this.#work(serving)
    } catch (error) {
      await this.#fail(error)
    }
    this.#ready.reject(new SandboxError('run_ended', 'the run ended'))
    this.#watchdog.stop()
    try {
      await this.#finish(serving)
    } catch (error) {
      if (!this.isAbandoned) throw error
      await this.#leave()
    }
  }

  /** Releases the sandbox and stores the end of the run, unless another process drives the run. */
  async #finish(serving: Serving | undefined): Promise<void> {
    // The launch gave the row a generation, which names the claim of the sandbox.
    const current = this.isAbandoned ? undefined : await this.#deps.store.readRun(this.run.id)
    if (this.isAbandoned || !current || !isHeld(this.run, current)) return this.#leave()
    const ending: Ending = this.#ending ?? {
      state: 'failed',
      code: 'internal',
      message: 'the run ended without a reason',
    }
    if (serving) {
      await this.#release(serving, ending).catch((error) => this.#log.error('the release failed', { error }))
    } else {
      await this.#leave()
      await discardClaim(this.#deps, current)
    }
    const reason = ending.state === 'failed' ? ending.code : ending.state
    const events = await this.#deps.folders?.conclude(this.run)
    await finishRun(this.#deps, this.#parts, {
      runId: this.run.id,
      ending,
      ...present({ events }),
      ...(serving && { released: reason }),
      onlyIf: (row) => isHeld(this.run, row),
    })
  }

  /** What was decided stands, also where the sandbox went before its driver did. */
  #rethrow(error: unknown): never {
    if (this.run.ending !== undefined) this.end(this.run.ending as Ending)
    throw error
  }

  /** Lets go of a sandbox, as far as there is one, and leaves it as it is. */
  async #leave(): Promise<void> {
    this.#relayStop.abort()
    this.#launched?.sandbox.detach()
    await this.#launched?.client.close()
    await this.#relaying
  }

  /** Other processes take turns, commands, decisions and the end of the run too. */
  async #hearOthers(): Promise<void> {
    const { run, commands, decided } = await hearOthers(this.#deps.store, this.run.id, this.#pending)
    if (run?.ending !== undefined) this.end(run.ending as Ending)
    if (run?.usedAt !== this.#usedAt) this.#watchdog.sign()
    this.#usedAt = run?.usedAt
    for (const id of commands) if (!this.#commands.has(id)) this.notifyCommand(id)
    this.#wake()
    for (const { requestId, decision } of decided) await this.settleApproval(requestId, [decision])
  }

  async #serve(): Promise<Serving> {
    const { shared } = this.#deps.provider
    const { signal } = this.#interrupted
    const isLaunched = shared && !(this.run.state === 'queued' || this.run.state === 'launching')
    // A launch that another process did not finish is begun again: whatever its sandbox was told, nothing was answered.
    if (this.run.state === 'launching') await discardClaim(this.#deps, this.run)
    if (!isLaunched && this.run.ending !== undefined) {
      this.end(this.run.ending as Ending)
      throw new SandboxError('run_ended', 'the run ended before it was launched')
    }
    const launched = isLaunched
      ? await attach({ ...this.#deps, shared }, this.run, signal).catch((error) => this.#rethrow(error))
      : await launchWhenRoom({ ...this.#deps, capacity: this.#parts.capacity }, this.run, signal)
    this.#launched = launched
    void lossOf(launched).then((loss) => this.#fail(loss))
    const { generation } = launched
    const after = isLaunched ? this.run.hostSequence - this.run.hostReread : 0
    const committer = new BatchCommitter(this.#deps, this.#parts.audit, { run: this.run, after })
    const resumed = isLaunched ? await readPosition(this.#deps, this.run, committer) : undefined
    // What the sandbox has said by now is fetched meanwhile, and committed after it.
    const beginning = { ...launched, sendTurn: () => this.#send(launched) }
    const begun = resumed ? undefined : beginRun(this.#deps, this.run, beginning)
    const relay = new Relay({
      runId: this.run.id,
      generation,
      client: launched.client,
      after,
      ...present({ begun }),
      commit: (batch) => committer.commit(batch),
      onCommitted: (committed) => this.#onCommitted(committed),
      maxWeight: MAX_EVENT_CHARACTERS,
      signal: this.#relayStop.signal,
      log: this.#log,
    })
    this.#relaying = relay.run().catch((error) => this.#fail(error))
    const serving = { ...launched, relay }
    await begun
    this.#nextTurn = launched.turn
    this.#watchdog.serve()
    this.#ready.resolve(serving)
    if (resumed) await this.#catchUp(serving, resumed)
    return serving
  }

  /** Tells the sandbox again what its driver may not have told it; it does nothing twice. */
  async #catchUp({ client, relay }: Serving, resumed: Position): Promise<void> {
    if (this.run.ending !== undefined) return this.end(this.run.ending as Ending)
    this.#nextTurn = resumed.turn
    this.#endedBefore = resumed.ended
    this.#expect(resumed.pending)
    if (resumed.decisions.length > 0) await relay.post(resumed.decisions, this.#interrupted.signal)
    for (const { id, request } of resumed.commands) {
      this.notifyCommand(id)
      await client.startCommand(id, hostCommandOf(request, this.run.settings), this.#interrupted.signal)
    }
  }

  async #work(serving: Serving): Promise<void> {
    const before = this.#endedBefore
    if (before) await this.#finishTurn(serving, before.turn, before.end)
    while (this.#ending === undefined) {
      const more = new Promise<void>((resolve) => {
        this.#wake = resolve
      })
      const turn = this.#nextTurn ?? (await whileHeld(this.#deps.store, this.run, takeTurn))
      this.#nextTurn = undefined
      if (turn) await this.#finishTurn(serving, turn, await this.#runTurn(serving, turn))
      else await more
    }
  }

  async #runTurn(serving: Serving, turn: TurnRow): Promise<TurnEnded> {
    const { signal } = this.#interrupted
    this.#activeTurn = turn.id
    this.#watchdog.sign()
    const sent = this.#sent ?? serving.client.turns.start(turn, signal)
    this.#sent = undefined
    await sent
    const end = await unlessAborted(this.#turnEnd(turn.id).promise, signal)
    this.#activeTurn = undefined
    this.#watchdog.sign()
    return end
  }

  /** Before the run's beginning is committed: nothing that the turn does is answered before. */
  #send({ client, turn }: LaunchedSandbox): void {
    this.#sent = turn && client.turns.start(turn, this.#interrupted.signal)
    this.#sent?.catch(() => undefined)
  }

  /** Who waits for a turn's end may come before or after it. */
  #turnEnd(turnId: string): PromiseWithResolvers<TurnEnded> {
    const known = this.#turnEnds.get(turnId) ?? Promise.withResolvers<TurnEnded>()
    this.#turnEnds.set(turnId, known)
    return known
  }

  /** A checkpoint follows every turn; then the run ends, unless there is or may be more to do. */
  async #finishTurn(serving: Serving, turn: TurnRow, end: TurnEnded): Promise<void> {
    await this.#save(serving)
    const ending = await endingAfterTurn(this.#deps, this.run, { turn, end })
    if (ending?.state === 'failed') await this.#fail(new SandboxError(ending.code, ending.message))
    else if (ending) this.end(ending)
  }

  /** A checkpoint that fails is told in the log and by its age; it does not end a run that works. */
  async #save(serving: Serving): Promise<void> {
    const saved = checkpoint(this.#deps, this.run, serving.client)
    await saved.catch((error) => this.#log.warn('the checkpoint failed', { error }))
  }

  async #release(serving: Serving, ending: Ending): Promise<void> {
    const { store } = this.#deps
    const begun = { event: { kind: 'release_begun' }, facts: { ending } } as const
    await whileHeld(store, this.run, (tx, current) => transition(tx, current, begun))
    const isAlive = !(ending.state === 'failed' && ending.code === 'sandbox_lost')
    const turnId = this.#activeTurn
    if (isAlive && turnId !== undefined) {
      const ended = this.#turnEnd(turnId).promise
      await stopTurn({ client: serving.client, turnId, ended }, this.#log)
    }
    // After a turn that ended by itself the checkpoint is there already.
    if (isAlive && (turnId !== undefined || this.run.kind === 'command')) await this.#save(serving)
    this.#relayStop.abort()
    try {
      await serving.sandbox.release(ending.state)
    } finally {
      await serving.client.close()
      await this.#relaying
    }
    await store.transaction((tx) => tx.changeClaim(serving.claim, { state: 'released' }))
  }

  #onCommitted(committed: Committed): void {
    this.#watchdog.sign()
    this.#expect(committed.approvals)
    for (const turn of committed.endedTurns) this.#turnEnd(turn.turnId).resolve(turn)
    for (const commandId of committed.endedCommands) this.#commands.delete(commandId)
  }

  #expect(approvals: readonly ApprovalRow[]): void {
    for (const { requestId, expiresAt } of approvals) {
      this.#pending.add(requestId)
      this.#watchdog.expireAt(requestId, expiresAt)
    }
  }

  #expire(requestId: string): void {
    const settle = async () => {
      const { approvals } = this.#parts
      const decision = await patiently(() => approvals.expire(this.run.id, requestId), this.#patience)
      if (decision) await this.settleApproval(requestId, [decision])
    }
    settle().catch((error) => this.#fail(error))
  }

  #endIdle(): void {
    this.#watchdog.sign()
    endingWhenIdle(this.#deps, this.run)
      .then((ending) => this.#activeTurn === undefined && this.end(ending))
      .catch((error) => this.#fail(error))
  }

  #probe(): void {
    this.#watchdog.sign()
    const answer = this.#ready.promise.then(({ relay }) => relay.post([], withTimeout(PROBE_TIMEOUT_MS)))
    const seconds = this.#deps.limits.stallTimeoutMs / 1000
    answer.catch(() =>
      this.#fail(
        new SandboxError(
          'agent_stall_timeout',
          `the sandbox said nothing for ${seconds} s and does not answer`,
        ),
      ),
    )
  }

  async #fail(error: unknown): Promise<void> {
    if (this.#ending !== undefined) return
    const { signal } = this.#interrupted
    const cause = this.#launched ? await causeOf(error, this.#launched, { signal }) : error
    this.end(failureOf(cause, this.#log))
  }
}
