import { dirname, join } from 'node:path'
import {
  type EgressDenied,
  type EgressEnvironment,
  type EgressGeneration,
  type EgressPod,
  MODEL_BASE_PATH,
  type ModelRoute,
} from '../../../contracts/egress.ts'
import type { SandboxKind } from '../../../contracts/names.ts'
import { type CheckTarget, createCheckNetwork } from '../../credential-check/check-network.ts'
import { type CheckAccess, modelsAt } from '../../credential-check/run-check.ts'
import { bestEffort } from '../../kit/best-effort.ts'
import { messageOf, SandboxError } from '../../kit/errors.ts'
import type { Log } from '../../kit/log.ts'
import type { BoundSandbox } from '../../sandboxes/provider.ts'
import type { PushedBranch } from '../../store/pushes.ts'
import type { RunRow, Store } from '../../store/store.ts'
import type { DeploymentKeys } from '../keys/deployment-keys.ts'
import { patiently } from '../runs/drive/patient-store.ts'
import type { Restrictions } from '../runs/restrictions/restrictions.ts'
import { AccessRenewal } from './access-renewal.ts'
import { ByteBudgets } from './byte-budgets.ts'
import type { CredentialWanted } from './egress-process.ts'
import { EgressProcesses } from './egress-processes.ts'
import { type ModelBudgets, meteredPart } from './model-budgets.ts'
import type { NetworkRules } from './network-rules.ts'
import { classOf, pushOf } from './push-state.ts'
import { readEgressKeys } from './read-keys.ts'
import type { ReportWriter } from './report-writer.ts'
import { type RunCredentials, valueHere, writeEnvironment } from './run-credentials.ts'
import { phaseOf } from './run-phase.ts'
import { signEgressToken } from './sign-token.ts'
import { type EgressTrust, writeTrustBundle } from './trust.ts'
import type { SandboxEgress, SandboxNetwork, ServedRun } from './with-egress.ts'

export interface LocalEgressOptions {
  readonly store: Pick<Store, 'readRun' | 'listPushed'>
  readonly restrictions: Pick<Restrictions, 'of' | 'onChange'>
  readonly rules: NetworkRules
  /** The authority that sandboxes trust, and what else they trust. */
  readonly trust: EgressTrust
  readonly credentials: RunCredentials
  /** The model server of a run's agent, if the agent reaches it through the proxy. */
  readonly routeOf: (run: Pick<RunRow, 'agentSpec' | 'owner'>) => ModelRoute | undefined
  readonly keys: Pick<DeploymentKeys, 'ticketKey' | 'jwksFile'>
  readonly clock: () => Date
  readonly writer: ReportWriter
  readonly budgets: Pick<ModelBudgets, 'reserve' | 'chargeAll'>
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
  /** Identifies the sandbox in the tokens of its agent. */
  readonly podUid: string
  /** Whether its commands are isolated, so that the proxy is their only way out. */
  readonly isIsolated: boolean
  /** Ends the wait for the store. */
  readonly signal: AbortSignal
}

interface Opened {
  readonly owner: string
  readonly sandbox: EgressSandbox
  readonly generation: EgressGeneration
  /** Absent without placeholders. */
  readonly environment?: EgressEnvironment
}

interface OpenedNetwork {
  readonly loosened: readonly string[]
  /** Whether the agent needs a token. */
  readonly hasRoute: boolean
}

/** In the private folder of a sandbox. Commands see only the folder with the other socket. */
const BROKER_SOCKET = 'broker'
const MODEL_SOCKET = 'model'
const LOOPBACK = '127.0.0.1'

/** An authority is replaced when it is 12 hours old, and ends after 24. */
const RENEWAL_MS = 3_600_000

const NO_VARIABLES: EgressEnvironment = { variables: {}, gitConfig: [] }

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
  /** Values that are not stored yet, by the network of their check. */
  readonly #checked = new Map<string, string>()
  readonly #unfollow: () => void
  readonly #renewals = new Map<string, AccessRenewal>()
  readonly #closing = new Map<string, Promise<void>>()
  readonly #bytes = new ByteBudgets()
  readonly #renewal: NodeJS.Timeout
  #revision = 0
  /** Changes of what people allowed. A sandbox that was read before the last one is read again. */
  #changes = 0

  constructor(options: LocalEgressOptions) {
    const { writer, log, trust, credentials, upstreamProxy } = options
    this.#options = options
    const unfollow = [
      options.restrictions.onChange(() => this.#onRestricted()),
      credentials.onChange((owners) => this.#onCredentials(owners)),
    ]
    this.#unfollow = () => {
      for (const end of unfollow) end()
    }
    this.#processes = new EgressProcesses({
      log,
      trust,
      upstreamProxy,
      readCredential: (wanted) => this.#readCredential(wanted),
      readKeys: () => readEgressKeys(options.keys.jwksFile),
      onReport: ({ runId, ...report }) => {
        if (report.type !== 'usage') return writer.write(runId, report)
        const data = this.#bytes.add(runId, report.bytes)
        if (data) writer.write(runId, { type: 'budget', generation: report.generation, data })
      },
      complete: (state) => this.#bytes.applyTo(state),
      reserve: (request) => options.budgets.reserve(request),
      onLost: () => this.#tellLost(),
    })
    this.#renewal = setInterval(() => void this.#renew(), RENEWAL_MS)
    this.#renewal.unref()
  }

  async connect(
    { egressSocket: socketPath, uids, isolation }: Pick<BoundSandbox, 'egressSocket' | 'uids' | 'isolation'>,
    { runId, generation, kind, signal }: ServedRun,
  ): Promise<SandboxNetwork | undefined> {
    if (socketPath === undefined) return undefined
    const brokerPath = join(dirname(dirname(socketPath)), BROKER_SOCKET)
    const isIsolated = isolation.enforcesEgress
    const sandbox = { runId, generation, kind, socketPath, brokerPath, podUid: uids.pod, isIsolated, signal }
    const { loosened, hasRoute } = await this.open(sandbox)
    const isOpen = this.#open.has(keyOf(runId, generation))
    const upstreamProxy = isOpen ? this.#options.upstreamProxy : undefined
    const close = () => this.close({ runId, generation })
    return { loosened, upstreamProxy, close, ...(hasRoute && this.#access(sandbox)) }
  }

  routes(run: Pick<RunRow, 'agentSpec' | 'owner'>): boolean {
    return this.#options.routeOf(run) !== undefined
  }

  /** Base URL for agents. Starts the proxy. Throws `unavailable` if it does not run. */
  async url(): Promise<string> {
    try {
      await this.#apply()
      const { port } = this.#processes
      if (port === undefined) throw new Error('it has no port')
      return `http://${LOOPBACK}:${port}${MODEL_BASE_PATH}`
    } catch (error) {
      throw noProxy(error)
    }
  }

  /** Gives AgentHost its token, and new ones until the network is closed. */
  #access({ runId, generation, podUid }: EgressSandbox): Pick<SandboxNetwork, 'open'> {
    const { keys, clock, log } = this.#options
    const key = keyOf(runId, generation)
    return {
      open: async (client) => {
        const pod = podOf(podUid)
        const sign = async () => ({
          agentHostToken: await signEgressToken(keys.ticketKey, {
            ...{ runId, generation, caller: 'agent-host', pod, now: clock() },
          }),
        })
        const renewal = new AccessRenewal({ client, sign, log: log.child({ runId }) })
        this.#renewals.set(key, renewal)
        await renewal.give()
      },
    }
  }

  /**
   * Opens the network of a sandbox: for its commands if the settings of its run allow it, and for its agent if that has a
   * model server. Throws `unavailable` if the agent cannot reach the proxy.
   */
  async open(sandbox: EgressSandbox): Promise<OpenedNetwork> {
    const opened = await this.#read(sandbox)
    if (!opened) return { loosened: [], hasRoute: false }
    this.#open.set(keyOf(sandbox.runId, sandbox.generation), opened)
    const hasRoute = opened.generation.modelRoute !== undefined
    if (hasRoute) await this.#enforceOrForget(opened)
    // A sandbox without a proxy has no network. Its commands print the reason.
    else await bestEffort(this.#options.log, 'open the network of a sandbox', () => this.#enforce(opened))
    const { withheld = [], destinations } = opened.generation
    const loosened = this.#options.rules
      .loosenedFor(sandbox.kind)
      .filter((host) => !withheld.includes(host) && destinations.length > 0)
    return { loosened, hasRoute }
  }

  /** An agent that cannot reach its model does not begin. */
  async #enforceOrForget(opened: Opened): Promise<void> {
    try {
      await this.#enforce(opened)
    } catch (error) {
      this.#open.delete(keyOf(opened.sandbox.runId, opened.sandbox.generation))
      throw noProxy(error)
    }
  }

  /** Applies what people have allowed to a run. In force when it returns. */
  async changed(runId: string): Promise<void> {
    await this.#readAgain(({ sandbox }) => sandbox.runId === runId)
  }

  /** Applies the credentials that these owners have set or removed. In force when it returns. */
  async #onCredentials(owners: ReadonlySet<string>): Promise<void> {
    const { log } = this.#options
    await bestEffort(log, 'apply the credentials of users', () =>
      this.#readAgain(({ owner }) => owners.has(owner)),
    )
  }

  async #readAgain(isMeant: (opened: Opened) => boolean): Promise<void> {
    this.#changes += 1
    for (const [key, before] of [...this.#open].filter(([, opened]) => isMeant(opened))) {
      const opened = await this.#read(before.sandbox)
      if (!opened || !this.#open.has(key)) continue
      this.#open.set(key, opened)
      await this.#enforce({ ...(before.environment && { environment: NO_VARIABLES }), ...opened })
    }
  }

  /** The network of a check, which lives until `use` ends. Restrictions of all runs apply to it. */
  async lend<T>(target: CheckTarget, value: string, use: (access: CheckAccess) => Promise<T>): Promise<T> {
    const { keys, clock, trust } = this.#options
    const { generation, podUid, remove } = await createCheckNetwork(target)
    const { runId, socketPath } = generation
    const key = keyOf(runId, generation.generation)
    const sandbox = { ...generation, kind: 'agent', podUid, isIsolated: false } as const
    const never = new AbortController().signal
    this.#checked.set(key, value)
    this.#open.set(key, { owner: '', sandbox: { ...sandbox, brokerPath: '', signal: never }, generation })
    try {
      const modelUrl = await this.url()
      const pod = podOf(podUid)
      const request = { runId, generation: 0, caller: 'agent-host', pod, now: clock() } as const
      const token = await signEgressToken(keys.ticketKey, request)
      return await use({ socketPath, models: modelsAt(modelUrl, token), ca: trust.bundle })
    } finally {
      this.#checked.delete(key)
      await this.close(generation)
      await remove()
    }
  }

  /** A credential of an owner is given only for sandboxes of this owner. */
  async #readCredential({ runId, generation, credential }: CredentialWanted): Promise<string> {
    const checked = this.#checked.get(keyOf(runId, generation))
    if (checked !== undefined) return checked
    const opened = this.#open.get(keyOf(runId, generation))
    if (!opened) throw new SandboxError('credential_absent', 'the sandbox has no network any more')
    return valueHere(await this.#options.credentials.read(credential, opened.owner))
  }

  /** What a sandbox may reach. Undefined without network access. */
  async #read(sandbox: EgressSandbox): Promise<Opened | undefined> {
    const { runId, generation, socketPath, brokerPath, signal } = sandbox
    const { store, rules, credentials, clock } = this.#options
    const log = this.#options.log.child({ runId })
    let changes: number
    let run: RunRow | undefined
    let pushed: readonly PushedBranch[] = []
    do {
      changes = this.#changes
      run = await patiently(() => store.readRun(runId), { signal, log })
      const of = run?.push?.runId ?? runId
      pushed = await patiently(() => store.listPushed(of), { signal, log })
    } while (changes !== this.#changes)
    if (!run) return undefined
    const kind = classOf(run, sandbox.kind)
    const route = this.#routeOf(run, sandbox)
    const listed = sandbox.isIsolated ? rules.destinationsOf(run, kind) : undefined
    if (!listed && !route) return undefined
    const withheld = [...rules.withheldFrom(run, kind)]
    const { destinations, placeholders, environment } = credentials.forRun(run, listed ?? [])
    const phase = phaseOf(run, generation, clock())
    const isBrokered = destinations.some(({ credential }) => credential !== undefined)
    const opened: EgressGeneration = {
      ...{ runId, generation, phase, socketPath, destinations, withheld },
      ...(isBrokered && { placeholders, brokerPath }),
      ...pushOf(run, pushed, isBrokered),
      ...(route && { modelRoute: route, pod: podOf(sandbox.podUid) }),
    }
    return { owner: run.owner, sandbox, generation: opened, ...(environment && { environment }) }
  }

  async #enforce({ sandbox, generation, environment }: Opened): Promise<void> {
    const folder = dirname(sandbox.socketPath)
    if (generation.destinations.some(({ authority }) => authority !== undefined))
      await writeTrustBundle(folder, this.#options.trust)
    if (environment) await writeEnvironment(folder, environment)
    await this.#apply()
  }

  /** The operator of a laptop chose the server, so it may be on this machine or in a private network. */
  #routeOf(run: RunRow, { socketPath }: EgressSandbox): ModelRoute | undefined {
    const route = this.#options.routeOf(run)
    const brokerPath = join(dirname(dirname(socketPath)), MODEL_SOCKET)
    return (
      route && {
        ...route,
        isPrivateAllowed: true,
        ...meteredPart(run.settings),
        ...(route.credential !== undefined && { brokerPath }),
      }
    )
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
    this.#renewals.get(key)?.stop()
    this.#renewals.delete(key)
    if (!this.#open.delete(key)) return
    await bestEffort(this.#options.log, 'close the network of a sandbox', () => this.#apply())
    await this.#options.writer.settled()
  }

  stop(): Promise<void> {
    this.#unfollow()
    clearInterval(this.#renewal)
    for (const renewal of this.#renewals.values()) renewal.stop()
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
    const generations = [...this.#open.values()].map(({ owner, generation }) => {
      const { network, isFrozen } = restrictions.of({ id: generation.runId, owner })
      return { ...generation, restriction: network, ...frozenRoute(generation, isFrozen) }
    })
    await this.#processes.apply({ revision: this.#revision, generations })
  }

  async #renew(): Promise<void> {
    if (this.#open.size === 0) return
    await bestEffort(this.#options.log, 'renew the authorities of the egress proxy', () => this.#apply())
  }

  #tellLost(): void {
    const { writer, budgets, log } = this.#options
    const runIds = [...this.#open.values()].map(({ generation: { runId } }) => runId)
    void bestEffort(log, 'count the open requests to models', () => budgets.chargeAll(runIds))
    for (const { generation: of } of this.#open.values())
      writer.write(of.runId, { type: 'denied', generation: of.generation, data: UNAVAILABLE })
  }
}

const podOf = (uid: string): EgressPod => ({ uid, addresses: [LOOPBACK] })

type Routed = Pick<EgressGeneration, 'modelRoute'>

const frozenRoute = ({ modelRoute }: Routed, isFrozen: boolean): Routed =>
  modelRoute && isFrozen ? { modelRoute: { ...modelRoute, isFrozen } } : {}

function noProxy(cause: unknown): SandboxError {
  const message = `The agent would call its model through the egress proxy of this machine, which does not run: ${messageOf(cause)}`
  return new SandboxError('unavailable', message, { cause })
}

const keyOf = (runId: string, generation: number) => `${runId} ${generation}`
