import { dirname, join } from 'node:path'
import type { EgressDenied, EgressEnvironment, EgressGeneration } from '../../../contracts/egress.ts'
import type { SandboxKind } from '../../../contracts/names.ts'
import { bestEffort } from '../../kit/best-effort.ts'
import type { Log } from '../../kit/log.ts'
import type { BoundSandbox } from '../../sandboxes/provider.ts'
import type { RunRow, Store } from '../../store/store.ts'
import { patiently } from '../runs/drive/patient-store.ts'
import type { Restrictions } from '../runs/restrictions/restrictions.ts'
import { ByteBudgets } from './byte-budgets.ts'
import { EgressProcesses } from './egress-processes.ts'
import type { NetworkRules } from './network-rules.ts'
import type { ReportWriter } from './report-writer.ts'
import { type RunCredentials, writeEnvironment } from './run-credentials.ts'
import { type EgressTrust, writeTrustBundle } from './trust.ts'
import type { SandboxEgress, SandboxNetwork, ServedRun } from './with-egress.ts'

export interface LocalEgressOptions {
  readonly store: Pick<Store, 'readRun'>
  readonly restrictions: Pick<Restrictions, 'of' | 'onChange'>
  readonly rules: NetworkRules
  /** The authority that sandboxes trust, and what else they trust. */
  readonly trust: EgressTrust
  readonly credentials: RunCredentials
  readonly writer: ReportWriter
  /** `http://HOST:PORT` of the company's proxy. */
  readonly upstreamProxy?: string | undefined
  readonly log: Log
}

/** A sandbox whose commands may get network access. */
export interface EgressSandbox {
  readonly runId: string
  readonly generation: number
  readonly kind: SandboxKind
  readonly socketPath: string
  /** For the socket of the process that inserts credentials, in a folder that commands do not see. */
  readonly brokerPath: string
  /** Ends the wait for the store. */
  readonly signal: AbortSignal
}

interface Opened {
  readonly owner: string
  readonly sandbox: EgressSandbox
  readonly generation: EgressGeneration
  /** Absent without credentials. */
  readonly environment?: EgressEnvironment
}

/** In the private folder of a sandbox, of which commands see only the folder of the other socket. */
const BROKER_SOCKET = 'broker'

/** An authority is replaced when it is 12 hours old, and ends after 24. */
const RENEWAL_MS = 3_600_000

const UNAVAILABLE: EgressDenied = {
  host: 'all hosts',
  port: 0,
  rule: 'proxy-unavailable',
  reason: 'the egress proxy ended',
  remedy: 'The service starts it again. Repeat the command.',
  count: 1,
}

/** The destinations of the sandboxes of this machine, and the processes that enforce them. */
export class LocalEgress implements SandboxEgress {
  readonly #options: LocalEgressOptions
  readonly #processes: EgressProcesses
  readonly #open = new Map<string, Opened>()
  readonly #unfollow: () => void
  readonly #closing = new Map<string, Promise<void>>()
  readonly #budgets = new ByteBudgets()
  readonly #renewal: NodeJS.Timeout
  #revision = 0
  /** Changes of what people allowed. A sandbox that was read before the last one is read again. */
  #changes = 0

  constructor(options: LocalEgressOptions) {
    const { writer, log, trust, credentials, upstreamProxy } = options
    this.#options = options
    this.#unfollow = options.restrictions.onChange(() => this.#onRestricted())
    this.#processes = new EgressProcesses({
      log,
      trust,
      upstreamProxy,
      readCredential: credentials.read,
      onReport: ({ runId, ...report }) => {
        if (report.type === 'usage') this.#budgets.add(runId, report.bytes)
        else writer.write(runId, report)
      },
      complete: (state) => this.#budgets.applyTo(state),
      onLost: () => this.#tellLost(),
    })
    this.#renewal = setInterval(() => void this.#renew(), RENEWAL_MS)
    this.#renewal.unref()
  }

  async connect(
    { egressSocket: socketPath }: Pick<BoundSandbox, 'egressSocket'>,
    { runId, generation, kind, signal }: ServedRun,
  ): Promise<SandboxNetwork | undefined> {
    if (socketPath === undefined) return undefined
    const brokerPath = join(dirname(dirname(socketPath)), BROKER_SOCKET)
    const loosened = await this.open({ runId, generation, kind, socketPath, brokerPath, signal })
    const isOpen = this.#open.has(keyOf(runId, generation))
    const upstreamProxy = isOpen ? this.#options.upstreamProxy : undefined
    return { loosened, upstreamProxy, close: () => this.close({ runId, generation }) }
  }

  /** Opens the network of a sandbox if the settings of its run allow it. Returns the hosts whose limits the proxy cannot enforce. */
  async open(sandbox: EgressSandbox): Promise<readonly string[]> {
    const opened = await this.#read(sandbox)
    if (!opened) return []
    this.#open.set(keyOf(sandbox.runId, sandbox.generation), opened)
    // A sandbox without a proxy has no network. Its commands print the reason.
    await bestEffort(this.#options.log, 'open the network of a sandbox', () => this.#enforce(opened))
    const { withheld = [] } = opened.generation
    return this.#options.rules.loosenedFor(sandbox.kind).filter((host) => !withheld.includes(host))
  }

  /** Applies what people have allowed to a run. In force when it returns. */
  async changed(runId: string): Promise<void> {
    this.#changes += 1
    const ofRun = [...this.#open].filter(([, { sandbox }]) => sandbox.runId === runId)
    for (const [key, { sandbox }] of ofRun) {
      const opened = await this.#read(sandbox)
      if (!opened || !this.#open.has(key)) continue
      this.#open.set(key, opened)
      await this.#enforce(opened)
    }
  }

  /** What a sandbox may reach. Undefined without network access. */
  async #read(sandbox: EgressSandbox): Promise<Opened | undefined> {
    const { runId, generation, kind, socketPath, brokerPath, signal } = sandbox
    const { store, rules, credentials } = this.#options
    const log = this.#options.log.child({ runId })
    let changes: number
    let run: RunRow | undefined
    do {
      changes = this.#changes
      run = await patiently(() => store.readRun(runId), { signal, log })
    } while (changes !== this.#changes)
    const destinations = run && rules.destinationsOf(run, kind)
    if (!run || !destinations) return undefined
    const withheld = [...rules.withheldFrom(run, kind)]
    const { placeholders, environment } = credentials.forRun(runId, destinations)
    const isBrokered = placeholders.length > 0
    const opened: EgressGeneration = {
      ...{ runId, generation, phase: 'work', socketPath, destinations, withheld },
      ...(isBrokered && { placeholders, brokerPath }),
    }
    return { owner: run.owner, sandbox, generation: opened, ...(isBrokered && { environment }) }
  }

  async #enforce({ sandbox, generation, environment }: Opened): Promise<void> {
    const folder = dirname(sandbox.socketPath)
    if (generation.destinations.some(({ authority }) => authority !== undefined))
      await writeTrustBundle(folder, this.#options.trust)
    if (environment) await writeEnvironment(folder, environment)
    await this.#apply()
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
    this.#unfollow()
    clearInterval(this.#renewal)
    return this.#processes.close()
  }

  #onRestricted(): void {
    if (this.#open.size === 0) return
    const { log } = this.#options
    void bestEffort(log, 'restrict the network of sandboxes', () => this.#apply())
  }

  async #apply(): Promise<void> {
    const { restrictions } = this.#options
    this.#revision += 1
    const generations = [...this.#open.values()].map(({ owner, generation }) => ({
      ...generation,
      restriction: restrictions.of({ id: generation.runId, owner }).network,
    }))
    await this.#processes.apply({ revision: this.#revision, generations })
  }

  async #renew(): Promise<void> {
    if (this.#open.size === 0) return
    await bestEffort(this.#options.log, 'renew the authorities of the egress proxy', () => this.#apply())
  }

  #tellLost(): void {
    const { writer } = this.#options
    for (const { generation: of } of this.#open.values())
      writer.write(of.runId, { type: 'denied', generation: of.generation, data: UNAVAILABLE })
  }
}

const keyOf = (runId: string, generation: number) => `${runId} ${generation}`
