import type { RunEvent } from '../../../../contracts/events.ts'
import { bestEffort } from '../../../kit/best-effort.ts'
import { withTimeout } from '../../../kit/deadline.ts'
import type { Log } from '../../../kit/log.ts'
import type { RunRow } from '../../../store/store.ts'
import type { RunDeps } from '../deps.ts'
import { whileHeld } from '../held-run.ts'
import type { Relay } from '../ingest/relay.ts'
import { discardClaim } from '../launch/attach.ts'
import type { LaunchedSandbox } from '../launch/launched-sandbox.ts'
import { transition } from '../machine/transition.ts'
import { concludeResults } from '../results/conclude-results.ts'
import { storeRepositoryResults } from '../results/repository-results.ts'
import { checkpoint } from './checkpoint.ts'
import { type Ending, type FinishParts, stalled } from './finish.ts'
import { type Loss, requeueLost } from './requeue.ts'
import { stopTurn } from './stop-turn.ts'

/** A sandbox that serves, with the relay of its events. */
export type Serving = LaunchedSandbox & { readonly relay: Relay }

/** How long a stalled sandbox may take to answer. */
const PROBE_TIMEOUT_MS = 10_000

type Release = {
  readonly ending: Ending
  /** The turn that works. */
  readonly turn?: { readonly id: string; readonly ended: Promise<unknown> }
}

type Losing = {
  readonly current: RunRow
  readonly serving: Serving | undefined
  /** The turn that works. */
  readonly turnId: string | undefined
}

/** How the driver of a run parts from its sandbox: leaves it, gives it back, or releases it at the end of the run. */
export class Departure {
  readonly relayStop = new AbortController()
  /** Settles when nothing more of the sandbox is committed. */
  relaying: Promise<void> | undefined
  /** The sandbox, as soon as it is configured. */
  launched: LaunchedSandbox | undefined
  readonly #deps: RunDeps
  readonly #run: RunRow
  readonly #log: Log

  constructor(deps: RunDeps, run: RunRow, log: Log) {
    this.#deps = deps
    this.#run = run
    this.#log = log
  }

  async stopRelay(): Promise<void> {
    this.relayStop.abort()
    await this.relaying
  }

  /** Leaves the sandbox as it is: another driver may use it. */
  async leave(): Promise<void> {
    this.relayStop.abort()
    this.launched?.sandbox.detach()
    await this.launched?.client.close()
    await this.relaying
  }

  /** Cleans up after a sandbox that never served. */
  async discard(current: RunRow): Promise<void> {
    await this.leave()
    await discardClaim(this.#deps, current)
  }

  /** Gives the sandbox back after the run in the store is already without it. */
  async giveBack(serving: Serving, reason: string): Promise<void> {
    await this.stopRelay()
    await bestEffort(this.#log, 'release the sandbox', () => serving.sandbox.release(reason))
    await serving.client.close()
    await this.#deps.store.transaction((tx) => tx.changeClaim(serving.claim, { state: 'released' }))
  }

  /**
   * Lets a run continue in another sandbox after the loss of this one. Returns how to part from this one, or undefined if the
   * run ends with the loss.
   */
  async requeue(
    parts: FinishParts,
    loss: Loss,
    { current, serving, turnId }: Losing,
  ): Promise<(() => Promise<void>) | undefined> {
    await this.stopRelay()
    if (serving && loss.code === 'api_restarted') await this.saveIfEnded(serving, turnId)
    const state = await requeueLost(this.#deps, parts, { run: this.#run, loss })
    if (state === undefined) return undefined
    return () => (serving ? this.giveBack(serving, loss.code) : this.discard(current))
  }

  /** Parts from the sandbox at the end of the run, if it has one. Returns the events of the run's results. */
  async conclude(current: RunRow, serving: Serving | undefined, release: Release): Promise<RunEvent[]> {
    const results = serving ? await this.release(serving, release) : await this.discard(current)
    return [...(results ?? []), ...(await concludeResults(this.#deps, this.#run))]
  }

  /**
   * Stops the turn, saves the run and releases its sandbox. What fails is logged. Returns the events of the results that only
   * the sandbox could make.
   */
  async release(serving: Serving, release: Release): Promise<RunEvent[]> {
    const events: RunEvent[] = []
    await this.#release(serving, release, events).catch((error) =>
      this.#log.error('the release failed', { error }),
    )
    return events
  }

  async #release(serving: Serving, { ending, turn }: Release, events: RunEvent[]): Promise<void> {
    const { store } = this.#deps
    const begun = { event: { kind: 'release_begun' }, facts: { ending } } as const
    await whileHeld(store, this.#run, (tx, current) => transition(tx, current, begun))
    const isAlive = !(ending.state === 'failed' && ending.code === 'sandbox_lost')
    if (isAlive && turn)
      await stopTurn({ client: serving.client, turnId: turn.id, ended: turn.ended }, this.#log)
    // After a turn that ended by itself the checkpoint is there already.
    if (isAlive && (turn || this.#run.kind === 'command')) await this.save(serving)
    if (isAlive) events.push(...(await this.#storeResults(serving)))
    this.relayStop.abort()
    try {
      await serving.sandbox.release(ending.state)
    } finally {
      await serving.client.close()
      await this.relaying
    }
    await store.transaction((tx) => tx.changeClaim(serving.claim, { state: 'released' }))
  }

  /** The row has the base commit, which is not known when the driver begins. */
  async #storeResults({ client }: Serving): Promise<RunEvent[]> {
    const current = await this.#deps.store.readRun(this.#run.id)
    return current ? storeRepositoryResults(this.#deps, current, client) : []
  }

  /** The turn may have ended while its driver was being stopped. No checkpoint has followed it then. */
  async saveIfEnded(serving: Serving, turnId: string | undefined): Promise<void> {
    const turn = turnId && (await this.#deps.store.transaction((tx) => tx.readTurn(turnId)))
    if (turn && turn.state === 'ended') await this.save(serving)
  }

  /** A failed checkpoint is logged, and `checkpointAt` stays; it does not end a run that works. */
  async save(serving: Serving): Promise<void> {
    const saved = checkpoint(this.#deps, this.#run, serving.client)
    await saved.catch((error) => this.#log.warn('the checkpoint failed', { error }))
  }
}

/** Rejects with `agent_stall_timeout` if a sandbox that has been silent does not answer. */
export async function probe(serving: Promise<Serving>, stallTimeoutMs: number): Promise<void> {
  const { relay } = await serving
  await relay.post([], withTimeout(PROBE_TIMEOUT_MS)).catch(() => {
    throw stalled(stallTimeoutMs)
  })
}
