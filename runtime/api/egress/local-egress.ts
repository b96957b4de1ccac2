import type { EgressDenied, EgressGeneration } from '../../../contracts/egress.ts'
import type { SandboxKind } from '../../../contracts/names.ts'
import { bestEffort } from '../../kit/best-effort.ts'
import type { Log } from '../../kit/log.ts'
import type { BoundSandbox } from '../../sandboxes/provider.ts'
import type { Store } from '../../store/store.ts'
import { EgressProcess } from './egress-process.ts'
import type { NetworkRules } from './network-rules.ts'
import type { ReportWriter } from './report-writer.ts'
import type { SandboxEgress, SandboxNetwork, ServedRun } from './with-egress.ts'

export interface LocalEgressOptions {
  readonly store: Pick<Store, 'readRun'>
  readonly rules: NetworkRules
  readonly writer: ReportWriter
  readonly log: Log
}

/** A sandbox whose commands may get network access. */
export interface EgressSandbox {
  readonly runId: string
  readonly generation: number
  readonly kind: SandboxKind
  readonly socketPath: string
}

const UNAVAILABLE: EgressDenied = {
  host: 'all hosts',
  port: 0,
  rule: 'proxy-unavailable',
  reason: 'the egress proxy ended',
  remedy: 'The service starts it again. Repeat the command.',
  count: 1,
}

/** The destinations of the sandboxes of this machine, and the process that enforces them. */
export class LocalEgress implements SandboxEgress {
  readonly #options: LocalEgressOptions
  readonly #process: EgressProcess
  readonly #open = new Map<string, EgressGeneration>()
  readonly #closing = new Map<string, Promise<void>>()
  #revision = 0

  constructor(options: LocalEgressOptions) {
    const { writer, log } = options
    this.#options = options
    this.#process = new EgressProcess({
      log,
      onReport: ({ runId, ...report }) => writer.write(runId, report),
      onLost: () => this.#tellLost(),
    })
  }

  async connect(
    { egressSocket: socketPath }: Pick<BoundSandbox, 'egressSocket'>,
    { runId, generation, kind }: ServedRun,
  ): Promise<SandboxNetwork | undefined> {
    if (socketPath === undefined) return undefined
    const loosened = await this.open({ runId, generation, kind, socketPath })
    return { loosened, close: () => this.close({ runId, generation }) }
  }

  /** Opens the network of a sandbox if the settings of its run allow it. Returns the hosts whose limits the proxy cannot enforce. */
  async open({ runId, generation, kind, socketPath }: EgressSandbox): Promise<readonly string[]> {
    const { store, rules } = this.#options
    const run = await store.readRun(runId)
    const destinations = run && rules.destinationsOf(run, kind)
    if (!destinations) return []
    this.#open.set(keyOf(runId, generation), { runId, generation, phase: 'work', socketPath, destinations })
    // A sandbox without a proxy has no network. Its commands print the reason.
    await bestEffort(this.#options.log, 'open the network of a sandbox', () => this.#apply())
    return rules.loosenedFor(kind)
  }

  /** Closes all connections of a sandbox, and stores what the proxy has reported about it. */
  close({ runId, generation }: Pick<EgressSandbox, 'runId' | 'generation'>): Promise<void> {
    const key = keyOf(runId, generation)
    // The release of a sandbox also reports its loss. Both callers wait for the same close.
    const closing = this.#closing.get(key) ?? this.#close(key).finally(() => this.#closing.delete(key))
    this.#closing.set(key, closing)
    return closing
  }

  async #close(key: string): Promise<void> {
    if (!this.#open.delete(key)) return
    await bestEffort(this.#options.log, 'close the network of a sandbox', () => this.#apply())
    await this.#options.writer.settled()
  }

  stop(): Promise<void> {
    return this.#process.close()
  }

  #apply(): Promise<void> {
    this.#revision += 1
    return this.#process.apply({ revision: this.#revision, generations: [...this.#open.values()] })
  }

  #tellLost(): void {
    const { writer } = this.#options
    for (const { runId, generation } of this.#open.values())
      writer.write(runId, { type: 'denied', generation, data: UNAVAILABLE })
  }
}

const keyOf = (runId: string, generation: number) => `${runId} ${generation}`
