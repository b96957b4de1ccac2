import { withTimeout } from '../../kit/deadline.ts'
import { messageOf, SandboxError } from '../../kit/errors.ts'
import type { RunRow, TurnRow } from '../../store/store.ts'
import type { Approvals } from './approvals.ts'
import type { AuditTrail } from './audit-trail.ts'
import { checkpoint } from './checkpoint.ts'
import { type Committed, createBatchCommitter } from './commit-batch.ts'
import type { RunDeps } from './deps.ts'
import { type Ending, finishRun } from './finish.ts'
import type { Gate } from './gate.ts'
import { type LaunchedSandbox, launch } from './launch.ts'
import { createRelay, type Relay } from './relay.ts'
import { createWatchdog } from './watchdog.ts'

export type ActiveRunParts = {
  readonly gate: Gate
  readonly audit: AuditTrail
  readonly approvals: Approvals
}

/** How long a cancelled turn may take to end by itself, and a stalled sandbox to answer. */
const CANCEL_GRACE_MS = 800
const PROBE_TIMEOUT_MS = 10_000

type TurnEnded = Committed['endedTurns'][number]
type Serving = LaunchedSandbox & { readonly relay: Relay; readonly relaying: Promise<void> }

/**
 * Drives one run from its sandbox to its end. It ends once: the first reason stands, whoever gives it, and
 * whatever the reason is, the sandbox is released and the run is final in the store.
 */
export function createActiveRun(deps: RunDeps, parts: ActiveRunParts, initial: RunRow) {
  const { store, limits } = deps
  const log = deps.log.child({ runId: initial.id })
  const interrupted = new AbortController()
  const relayStop = new AbortController()
  const ready = Promise.withResolvers<Serving>()
  const pending = new Set<string>()
  const turnEnds = new Map<string, (end: TurnEnded) => void>()
  const commands = new Set<string>()
  let ending: Ending | undefined
  let activeTurn: string | undefined
  let wake: () => void = () => undefined
  ready.promise.catch(() => undefined)

  function end(reason: Ending): void {
    ending ??= reason
    interrupted.abort(new SandboxError('run_ended', 'the run ended'))
    wake()
  }

  const fail = (error: unknown): void => {
    const code = error instanceof SandboxError ? error.code : 'internal'
    if (code === 'internal') log.error('the run failed', { error })
    end({
      state: 'failed',
      code,
      message: code === 'internal' ? 'the executor failed; its log has the cause' : messageOf(error),
    })
  }

  const watchdog = createWatchdog(
    limits,
    () => ({ working: activeTurn !== undefined || commands.size > 0, waiting: pending.size > 0 }),
    {
      onExpired: (requestId) => {
        parts.approvals
          .expire(initial.id, requestId)
          .then((decision) => decision && settleApproval(requestId, [decision]), fail)
      },
      onStalled: () => {
        watchdog.sign()
        probe().catch(() =>
          fail(
            new SandboxError(
              'agent_stall_timeout',
              `the sandbox said nothing for ${limits.stallTimeoutMs / 1000} s and does not answer`,
            ),
          ),
        )
      },
      onOverdue: () =>
        fail(
          new SandboxError(
            'deadline_exceeded',
            `the run was active for more than ${limits.runTimeoutMs / 1000} s`,
          ),
        ),
      onIdle: () =>
        end({ state: 'succeeded', summary: `ended after ${limits.idleTimeoutMs / 1000} s without use` }),
    },
  )

  async function probe(): Promise<void> {
    const { relay } = await ready.promise
    await Promise.race([
      relay.post([]),
      new Promise((_resolve, reject) => setTimeout(reject, PROBE_TIMEOUT_MS).unref()),
    ])
  }

  async function settleApproval(requestId: string, decisions: Parameters<Relay['post']>[0]): Promise<void> {
    pending.delete(requestId)
    watchdog.sign()
    const { relay } = await ready.promise
    await relay.post(decisions)
  }

  function onCommitted(committed: Committed): void {
    watchdog.sign()
    for (const approval of committed.approvals) {
      pending.add(approval.requestId)
      watchdog.expireAt(approval.requestId, approval.expiresAt)
    }
    for (const turn of committed.endedTurns) turnEnds.get(turn.turnId)?.(turn)
    for (const commandId of committed.endedCommands) commands.delete(commandId)
  }

  async function serve(): Promise<Serving> {
    const launched = await launch(deps, initial, interrupted.signal)
    launched.sandbox.lost.then((how) => fail(new SandboxError('sandbox_lost', how)), fail)
    const { client, generation } = launched
    const relay = createRelay({
      runId: initial.id,
      generation,
      client,
      commit: createBatchCommitter(deps, parts),
      onCommitted,
      signal: relayStop.signal,
      log,
    })
    await store.transaction(async (tx) => {
      await tx.changeRun(initial.id, {
        state: initial.kind === 'agent' ? 'running' : 'idle',
        startedAt: deps.clock().toISOString(),
      })
      await tx.appendEvents(initial.id, [{ event: { type: 'run.started', data: { generation } } }])
    })
    const relaying = relay.run().catch(fail)
    const serving = { ...launched, relay, relaying }
    ready.resolve(serving)
    return serving
  }

  const nextTurn = (): Promise<TurnRow | undefined> =>
    store.transaction(async (tx) => {
      const [turn] = await tx.listTurns(initial.id, ['queued'])
      if (turn) await tx.changeTurn(turn.id, 'sent')
      const state = turn ? 'running' : 'idle'
      if (initial.interactive || turn) await tx.changeRun(initial.id, { state })
      return turn
    })

  async function runTurn(serving: Serving, turn: TurnRow): Promise<TurnEnded> {
    const ended = new Promise<TurnEnded>((resolve) => turnEnds.set(turn.id, resolve))
    activeTurn = turn.id
    watchdog.sign()
    await serving.client.turns.start(turn, interrupted.signal)
    const stopped = new Promise<never>((_resolve, reject) => {
      interrupted.signal.addEventListener('abort', () => reject(interrupted.signal.reason), { once: true })
    })
    const end = await Promise.race([ended, stopped])
    activeTurn = undefined
    watchdog.sign()
    return end
  }

  /** The end that a finished turn means for a run that has nothing more to do. */
  async function endAfter(turn: TurnEnded): Promise<void> {
    const { message } = turn
    if (turn.state === 'failed')
      return fail(new SandboxError(turn.code ?? 'agent_failed', message ?? 'the turn failed'))
    const run = await store.readRun(initial.id)
    const { outcome, summary } = run?.outcome ?? {}
    const said = summary === undefined ? {} : { summary }
    end(outcome === 'failed' ? { state: 'outcome-failed', ...said } : { state: 'succeeded', ...said })
  }

  async function work(serving: Serving): Promise<void> {
    while (ending === undefined) {
      const more = new Promise<void>((resolve) => {
        wake = resolve
      })
      const turn = await nextTurn()
      if (!turn) {
        await more
        continue
      }
      const turnEnd = await runTurn(serving, turn)
      await save(serving)
      const queued = (await store.transaction((tx) => tx.listTurns(initial.id, ['queued']))).length > 0
      if (turn.final || turnEnd.state === 'failed' || !(initial.interactive || queued))
        await endAfter(turnEnd)
    }
  }

  /** A checkpoint that fails is told in the log and by its age; it does not end a run that works. */
  async function save(serving: Serving): Promise<void> {
    await checkpoint(deps, initial, serving.client).catch((error) =>
      log.warn('the checkpoint failed', { error }),
    )
  }

  /** Lets a turn that works end by itself, for a moment, so that its last events are kept. */
  async function stopTurn(serving: Serving): Promise<void> {
    const turnId = activeTurn
    if (turnId === undefined) return
    const ended = new Promise<void>((resolve) => turnEnds.set(turnId, () => resolve()))
    const signal = withTimeout(CANCEL_GRACE_MS)
    const timedOut = new Promise<void>((resolve) =>
      signal.addEventListener('abort', () => resolve(), { once: true }),
    )
    await Promise.race([serving.client.turns.cancel(turnId, signal).then(() => ended), timedOut]).catch(
      (error) => log.warn('the turn did not cancel', { error }),
    )
  }

  async function release(serving: Serving, reason: Ending): Promise<void> {
    const alive = !(reason.state === 'failed' && reason.code === 'sandbox_lost')
    if (alive) {
      await stopTurn(serving)
      if (reason.state !== 'succeeded' && reason.state !== 'outcome-failed') await save(serving)
    }
    relayStop.abort()
    await serving.sandbox.release(reason.state)
    await serving.client.close()
    await serving.relaying
    await store.transaction((tx) => tx.changeClaim(serving.claim, { state: 'released' }))
  }

  async function drive(): Promise<void> {
    let serving: Serving | undefined
    try {
      serving = await serve()
      await work(serving)
    } catch (error) {
      if (ending === undefined) fail(error)
    }
    ready.reject(new SandboxError('run_ended', 'the run ended'))
    const reason: Ending = ending ?? {
      state: 'failed',
      code: 'internal',
      message: 'the run ended without a reason',
    }
    watchdog.stop()
    try {
      await store.transaction((tx) => tx.changeRun(initial.id, { state: 'ending' }))
      if (serving) await release(serving, reason)
    } catch (error) {
      log.error('the sandbox could not be released', { error })
    }
    const released = serving ? { released: reason.state === 'failed' ? reason.code : reason.state } : {}
    await finishRun(deps, parts, { runId: initial.id, ending: reason, ...released })
  }

  const finished = drive().catch((error) => log.error('the run could not be finished', { error }))

  return {
    run: initial,
    finished,
    /** Resolves when the sandbox serves; rejects with `run_ended` where it never will. */
    serving: ready.promise,
    end,
    /** A turn was queued. */
    notifyTurn: () => wake(),
    settleApproval,
    notifyCommand: (commandId: string) => {
      commands.add(commandId)
      watchdog.sign()
    },
    sign: () => watchdog.sign(),
  }
}

export type ActiveRun = ReturnType<typeof createActiveRun>
