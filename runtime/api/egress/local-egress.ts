import type { EgressDenied, EgressDestination, EgressGeneration } from '../../../contracts/egress.ts'
import type { SandboxKind } from '../../../contracts/names.ts'
import { allowlist } from '../../../policies/agent/egress/allowlist.ts'
import type { EgressPolicy } from '../../../policies/agent/egress/load.ts'
import { narrow } from '../../../policies/agent/egress/narrow.ts'
import { resolveEgress } from '../../../policies/agent/egress/resolve.ts'
import { placementOf } from '../../../policies/agent/egress/targets.ts'
import { bestEffort } from '../../kit/best-effort.ts'
import type { Log } from '../../kit/log.ts'
import type { Store } from '../../store/store.ts'
import type { Restrictions } from '../runs/restrictions/restrictions.ts'
import { EgressProcess } from './egress-process.ts'
import type { ReportWriter } from './report-writer.ts'

export interface LocalEgressOptions {
  readonly store: Pick<Store, 'readRun'>
  readonly restrictions: Pick<Restrictions, 'of' | 'onChange'>
  readonly policy: EgressPolicy
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

type Opened = { readonly owner: string; readonly generation: EgressGeneration }

const UNAVAILABLE: EgressDenied = {
  host: 'all hosts',
  port: 0,
  rule: 'proxy-unavailable',
  reason: 'the egress proxy ended',
  remedy: 'The service starts it again. Repeat the command.',
  count: 1,
}

/** The destinations of the sandboxes of this machine, and the process that enforces them. */
export class LocalEgress {
  readonly #options: LocalEgressOptions
  readonly #process: EgressProcess
  readonly #open = new Map<string, Opened>()
  readonly #unfollow: () => void
  readonly #closing = new Map<string, Promise<void>>()
  readonly #destinations: Readonly<Record<SandboxKind, readonly EgressDestination[]>>
  /** Hosts that are reached without the limits of their entry, by class. */
  readonly #loosened: Readonly<Record<SandboxKind, readonly string[]>>
  #revision = 0

  constructor(options: LocalEgressOptions) {
    const { writer, log, policy } = options
    this.#options = options
    this.#unfollow = options.restrictions.onChange(() => this.#onRestricted())
    this.#process = new EgressProcess({
      log,
      onReport: ({ runId, ...report }) => writer.write(runId, report),
      onLost: () => this.#tellLost(),
    })
    // A laptop has no names for the placeholders.
    const egress = resolveEgress(policy, {})
    const ofClass = (kind: SandboxKind) =>
      allowlist(egress, kind, 'laptop').filter(isForCommands).map(toDestination)
    this.#destinations = { agent: ofClass('agent'), command: ofClass('command') }
    const loosened = (kind: SandboxKind) =>
      egress.classes[kind]
        .filter((one) => one.caller === undefined && placementOf(one, 'laptop').kind === 'loosened')
        .map(({ host }) => host)
    this.#loosened = { agent: loosened('agent'), command: loosened('command') }
  }

  /** Opens the network of a sandbox if the settings of its run allow it. Returns the hosts whose limits the proxy cannot enforce. */
  async open({ runId, generation, kind, socketPath }: EgressSandbox): Promise<readonly string[]> {
    const run = await this.#options.store.readRun(runId)
    if (!run?.settings.network_enabled) return []
    const narrowed = narrow(this.#destinations[kind], run.settings.egress_hosts)
    const destinations = [...narrowed.destinations]
    const withheld = [...narrowed.withheld]
    const { owner } = run
    const opened = { runId, generation, phase: 'work', socketPath, destinations, withheld } as const
    this.#open.set(keyOf(runId, generation), { owner, generation: opened })
    // A sandbox without a proxy has no network. Its commands print the reason.
    await bestEffort(this.#options.log, 'open the network of a sandbox', () => this.#apply())
    // A wildcard of the list may have been narrowed to names below it.
    return this.#loosened[kind].filter((host) => !withheld.includes(host))
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
    return this.#process.close()
  }

  #onRestricted(): void {
    if (this.#open.size === 0) return
    const { log } = this.#options
    void bestEffort(log, 'restrict the network of sandboxes', () => this.#apply())
  }

  #apply(): Promise<void> {
    const { restrictions } = this.#options
    this.#revision += 1
    const generations = [...this.#open.values()].map(({ owner, generation }) => ({
      ...generation,
      restriction: restrictions.of({ id: generation.runId, owner }).network,
    }))
    return this.#process.apply({ revision: this.#revision, generations })
  }

  #tellLost(): void {
    const { writer } = this.#options
    for (const { generation: of } of this.#open.values())
      writer.write(of.runId, { type: 'denied', generation: of.generation, data: UNAVAILABLE })
  }
}

const keyOf = (runId: string, generation: number) => `${runId} ${generation}`

const isForCommands = ({ caller }: { caller: string }) => caller === 'any'

const toDestination = ({
  ports,
  phases,
  addresses,
  methods,
  ...rest
}: ReturnType<typeof allowlist>[number]): EgressDestination => ({
  ...rest,
  ports: [...ports],
  phases: [...phases],
  methods: methods === 'any' ? 'any' : [...methods],
  ...(addresses && { addresses: [...addresses] }),
})
