import { withTimeout } from '../../kit/deadline.ts'
import { messageOf, SandboxError } from '../../kit/errors.ts'
import type { Log } from '../../kit/log.ts'
import type { RunRow, Transaction, TurnRow } from '../../store/store.ts'
import type { Approvals } from './approvals.ts'
import type { AuditTrail } from './audit-trail.ts'
import { checkpoint } from './checkpoint.ts'
import { BatchCommitter, type Committed } from './commit-batch.ts'
import type { RunDeps } from './deps.ts'
import { type Ending, finishRun } from './finish.ts'
import { type LaunchedSandbox, launch } from './launch.ts'
import { Relay } from './relay.ts'
import { createWatchdog } from './watchdog.ts'

export type ActiveRunParts = { readonly audit: AuditTrail; readonly approvals: Approvals }

type TurnEnded = Committed['endedTurns'][number]
type Serving = LaunchedSandbox & { readonly relay: Relay; readonly relaying: Promise<void> }

/** How long a cancelled turn may take to end by itself, and a stalled sandbox to answer. */
const CANCEL_GRACE_MS = 800
const PROBE_TIMEOUT_MS = 10_000

/** Over a hundred commands that each fill both of their streams with the default cap. */
const MAX_EVENT_CHARACTERS = 1_073_741_824

/**
 * Drives one run from its sandbox to its end. It ends once: the first reason stands, whoever gives it, and
 * whatever the reason is, the sandbox is released and the run is final in the store.
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
  readonly #turnEnds = new Map<string, (end: TurnEnded) => void>()
  #ending: Ending | undefined
  #activeTurn: string | undefined
  /** Taken when the run started, in the same commit. */
  #nextTurn: TurnRow | undefined
  #wake: () => void = () => undefined

  constructor(deps: RunDeps, parts: ActiveRunParts, run: RunRow) {
    this.run = run
    this.#deps = deps
    this.#parts = parts
    this.#log = deps.log.child({ runId: run.id })
    this.#ready.promise.catch(() => undefined)
    this.#watchdog = createWatchdog(
      deps.limits,
      () => ({
        working: this.#activeTurn !== undefined || this.#commands.size > 0,
        waiting: this.#pending.size > 0,
      }),
      {
        onExpired: (requestId) => this.#expire(requestId),
        onStalled: () => this.#probe(),
        onOverdue: () =>
          this.#fail(
            new SandboxError(
              'deadline_exceeded',
              `the run was active for more than ${deps.limits.runTimeoutMs / 1000} s`,
            ),
          ),
        onIdle: () =>
          this.end({
            state: 'succeeded',
            summary: `ended after ${deps.limits.idleTimeoutMs / 1000} s without use`,
          }),
      },
    )
    this.finished = this.#drive().catch((error) =>
      this.#log.error('the run could not be finished', { error }),
    )
  }

  /** Resolves when the sandbox serves; rejects with `run_ended` where it never will. */
  get serving(): Promise<Serving> {
    return this.#ready.promise
  }

  end(reason: Ending): void {
    this.#ending ??= reason
    this.#interrupted.abort(new SandboxError('run_ended', 'the run ended'))
    this.#wake()
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
      this.#fail(error)
    }
    this.#ready.reject(new SandboxError('run_ended', 'the run ended'))
    this.#watchdog.stop()
    const ending: Ending = this.#ending ?? {
      state: 'failed',
      code: 'internal',
      message: 'the run ended without a reason',
    }
    if (serving) {
      await this.#release(serving, ending).catch((error) => this.#log.error('the release failed', { error }))
    }
    const reason = ending.state === 'failed' ? ending.code : ending.state
    await finishRun(this.#deps, this.#parts, {
      runId: this.run.id,
      ending,
      ...(serving && { released: reason }),
    })
  }

  async #serve(): Promise<Serving> {
    const { store, clock } = this.#deps
    const launched = await launch(this.#deps, this.run, this.#interrupted.signal)
    launched.sandbox.lost.then(
      (how) => this.#fail(new SandboxError('sandbox_lost', how)),
      (error) => this.#fail(error),
    )
    const { generation } = launched
    await store.transaction(async (tx) => {
      await tx.changeRun(this.run.id, { startedAt: clock().toISOString() })
      await tx.appendEvents(this.run.id, [{ event: { type: 'run.started', data: { generation } } }])
      this.#nextTurn = await takeTurn(tx, this.run.id)
    })
    const committer = new BatchCommitter(this.#deps, this.#parts.audit, this.run)
    const relay = new Relay({
      runId: this.run.id,
      generation,
      client: launched.client,
      commit: (batch) => committer.commit(batch),
      onCommitted: (committed) => this.#onCommitted(committed),
      maxWeight: MAX_EVENT_CHARACTERS,
      signal: this.#relayStop.signal,
      log: this.#log,
    })
    const relaying = relay.run().catch((error) => this.#fail(error))
    const serving = { ...launched, relay, relaying }
    this.#ready.resolve(serving)
    return serving
  }

  async #work(serving: Serving): Promise<void> {
    while (this.#ending === undefined) {
      const more = new Promise<void>((resolve) => {
        this.#wake = resolve
      })
      const turn = this.#nextTurn ?? (await this.#deps.store.transaction((tx) => takeTurn(tx, this.run.id)))
      this.#nextTurn = undefined
      if (turn) await this.#finishTurn(serving, turn, await this.#runTurn(serving, turn))
      else await more
    }
  }

  async #runTurn(serving: Serving, turn: TurnRow): Promise<TurnEnded> {
    const { signal } = this.#interrupted
    const ended = new Promise<TurnEnded>((resolve) => this.#turnEnds.set(turn.id, resolve))
    const interrupted = new Promise<never>((_resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason), { once: true })
    })
    interrupted.catch(() => undefined)
    this.#activeTurn = turn.id
    this.#watchdog.sign()
    await serving.client.turns.start(turn, signal)
    const end = await Promise.race([ended, interrupted])
    this.#activeTurn = undefined
    this.#watchdog.sign()
    return end
  }

  /** A checkpoint follows every turn; then the run ends, unless there is or may be more to do. */
  async #finishTurn(serving: Serving, turn: TurnRow, end: TurnEnded): Promise<void> {
    await this.#save(serving)
    if (end.state === 'failed') {
      return this.#fail(new SandboxError(end.code ?? 'agent_failed', end.message ?? 'the turn failed'))
    }
    const queued = await this.#deps.store.transaction((tx) => tx.listTurns(this.run.id, ['queued']))
    if (!turn.final && (this.run.interactive || queued.length > 0)) return
    const run = await this.#deps.store.readRun(this.run.id)
    const { outcome, summary } = run?.outcome ?? {}
    const state = outcome === 'failed' ? 'outcome-failed' : 'succeeded'
    this.end({ state, ...(summary !== undefined && { summary }) })
  }

  /** A checkpoint that fails is told in the log and by its age; it does not end a run that works. */
  async #save(serving: Serving): Promise<void> {
    const saved = checkpoint(this.#deps, this.run, serving.client)
    await saved.catch((error) => this.#log.warn('the checkpoint failed', { error }))
  }

  async #release(serving: Serving, ending: Ending): Promise<void> {
    const { store } = this.#deps
    await store.transaction((tx) => tx.changeRun(this.run.id, { state: 'ending' }))
    const isAlive = !(ending.state === 'failed' && ending.code === 'sandbox_lost')
    const turnId = this.#activeTurn
    if (isAlive && turnId !== undefined) await this.#stopTurn(serving, turnId)
    // After a turn that ended by itself the checkpoint is there already.
    if (isAlive && (turnId !== undefined || this.run.kind === 'command')) await this.#save(serving)
    this.#relayStop.abort()
    try {
      await serving.sandbox.release(ending.state)
    } finally {
      await serving.client.close()
      await serving.relaying
    }
    await store.transaction((tx) => tx.changeClaim(serving.claim, { state: 'released' }))
  }

  /** Lets a turn that works end by itself, for a moment, so that its last events are kept. */
  async #stopTurn({ client }: Serving, turnId: string): Promise<void> {
    const ended = new Promise<void>((resolve) => this.#turnEnds.set(turnId, () => resolve()))
    const signal = withTimeout(CANCEL_GRACE_MS)
    const timedOut = new Promise<void>((resolve) =>
      signal.addEventListener('abort', () => resolve(), { once: true }),
    )
    const cancelled = client.turns.cancel(turnId, signal).then(() => ended)
    await Promise.race([cancelled, timedOut]).catch((error) =>
      this.#log.warn('the turn did not cancel', { error }),
    )
  }

  #onCommitted(committed: Committed): void {
    this.#watchdog.sign()
    for (const { requestId, expiresAt } of committed.approvals) {
      this.#pending.add(requestId)
      this.#watchdog.expireAt(requestId, expiresAt)
    }
    for (const turn of committed.endedTurns) this.#turnEnds.get(turn.turnId)?.(turn)
    for (const commandId of committed.endedCommands) this.#commands.delete(commandId)
  }

  #expire(requestId: string): void {
    const settle = async () => {
      const decision = await this.#parts.approvals.expire(this.run.id, requestId)
      if (decision) await this.settleApproval(requestId, [decision])
    }
    settle().catch((error) => this.#fail(error))
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

  #fail(error: unknown): void {
    if (this.#ending !== undefined) return
    const code = error instanceof SandboxError ? error.code : 'internal'
    if (code === 'internal') this.#log.error('the run failed', { error })
    const message = code === 'internal' ? 'the executor failed; its log has the cause' : messageOf(error)
    this.end({ state: 'failed', code, message })
  }
}

/** The next queued turn, marked as sent; the run's state says whether there is one. */
async function takeTurn(tx: Transaction, runId: string): Promise<TurnRow | undefined> {
  const [turn] = await tx.listTurns(runId, ['queued'])
  if (turn) await tx.changeTurn(turn.id, 'sent')
  await tx.changeRun(runId, { state: turn ? 'running' : 'idle' })
  return turn
}
