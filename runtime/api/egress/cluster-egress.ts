import { RequestedAgent } from '../../../contracts/agents.ts'
import type { EgressCaller, EgressDenied, EgressPod } from '../../../contracts/egress.ts'
import { EGRESS_TOKEN, type EgressGrant } from '../../../contracts/egress-control.ts'
import type { AgentHostClient } from '../../agent-host-client/client.ts'
import { insertedFor } from '../../agents/registry.ts'
import { bestEffort } from '../../kit/best-effort.ts'
import { messageOf, SandboxError } from '../../kit/errors.ts'
import type { Log } from '../../kit/log.ts'
import type { BoundSandbox } from '../../sandboxes/provider.ts'
import type { OpenNetwork } from '../../store/egress.ts'
import type { RunRow, Store } from '../../store/store.ts'
import type { DeploymentKeys } from '../keys/deployment-keys.ts'
import { patiently } from '../runs/drive/patient-store.ts'
import { repeat } from '../runs/repeat.ts'
import { PROXY_SEEN_MS } from './control-hub.ts'
import type { RouteOf, ServersOf } from './control-state.ts'
import type { NetworkRules } from './network-rules.ts'
import { classOf } from './push-state.ts'
import type { ReportWriter } from './report-writer.ts'
import type { RunCredentials } from './run-credentials.ts'
import { signEgressToken } from './sign-token.ts'
import type { EgressTrust } from './trust.ts'
import type { SandboxEgress, SandboxNetwork, ServedRun } from './with-egress.ts'

export interface ClusterEgressOptions {
  readonly store: Pick<Store, 'readRun' | 'openNetwork' | 'closeNetwork' | 'countProxies'>
  readonly rules: NetworkRules
  readonly credentials: Pick<RunCredentials, 'forRun' | 'onChange'>
  /** The model server of a run's agent, if the agent reaches it through the proxy. @default none does */
  readonly routeOf?: RouteOf | undefined
  /** The servers that a run's agent reaches itself through the proxy. @default none */
  readonly serversOf?: ServersOf | undefined
  /** Base URL of the proxy for agents. Absent if agents connect to their model servers themselves. */
  readonly modelUrl?: string | undefined
  readonly trust: Pick<EgressTrust, 'bundle'>
  readonly keys: Pick<DeploymentKeys, 'ticketKey'>
  readonly writer: Pick<ReportWriter, 'write' | 'settled'>
  /** `http://HOST:PORT` of the company's proxy, which the replicas use. */
  readonly upstreamProxy?: string | undefined
  /** The network plugin encrypts what pods on different nodes send each other. @default false */
  readonly isNetworkEncrypted?: boolean
  /** Called when the state of the proxies has changed. */
  readonly onChange: () => void
  readonly clock: () => Date
  readonly log: Log
  /** @default 2 s */
  readonly watchEveryMs?: number
}

/** Two renewals may fail before the token of a sandbox ends. */
const RENEW_MS = (EGRESS_TOKEN.lifetimeSeconds * 1000) / 3
const RETRY_MS = 10_000
const SEND_MS = 10_000
const WATCH_MS = 2_000
/** A replica that changes from one API process to another is away for a moment. */
const ROUNDS_WITHOUT_PROXY = 2

const UNAVAILABLE: EgressDenied = {
  host: 'all hosts',
  port: 0,
  rule: 'proxy-unavailable',
  reason: 'no replica of the egress proxy is connected to the service',
  remedy: 'The operator must look at the pods of the egress proxy. Repeat the command when one is ready.',
  count: 1,
}

type OwnedNetwork = OpenNetwork & Pick<RunRow, 'owner'>

interface Open {
  readonly client: AgentHostClient
  readonly network: OwnedNetwork
  readonly renewing: NodeJS.Timeout | undefined
  isTold: boolean
}

/** The networks of the sandboxes that this process drives, in a cluster. The proxies get their state from the store. */
export class ClusterEgress implements SandboxEgress {
  readonly #options: ClusterEgressOptions
  readonly #open = new Map<string, Open>()
  readonly #watch: { stop(): Promise<void> }
  readonly #unfollow: () => void
  #roundsWithoutProxy = 0

  constructor(options: ClusterEgressOptions) {
    this.#options = options
    this.#unfollow = options.credentials.onChange((owners) => this.#onCredentials(owners))
    this.#watch = repeat(() => this.#look(), options.watchEveryMs ?? WATCH_MS)
  }

  async connect(
    { uids, podAddresses }: Pick<BoundSandbox, 'uids' | 'podAddresses'>,
    served: ServedRun,
  ): Promise<SandboxNetwork | undefined> {
    const { store, rules } = this.#options
    if (!podAddresses) return undefined
    const log = this.#options.log.child({ runId: served.runId })
    const run = await patiently(() => store.readRun(served.runId), { signal: served.signal, log })
    const listed = run && rules.destinationsOf(run, classOf(run, served.kind))
    if (!run || (!listed && !this.#isForAgent(run))) return undefined
    const pod: EgressPod = { uid: uids.pod, addresses: [...podAddresses] }
    const network = { ...keyPart(served), kind: served.kind, pod, owner: run.owner }
    return {
      loosened: listed ? rules.loosenedFor(served.kind) : [],
      upstreamProxy: this.#options.upstreamProxy,
      holdsCredential: this.#holdsCredential(run),
      isModelReadable: this.routes(run) && this.#options.isNetworkEncrypted !== true,
      open: (client) => this.#openFor(client, network),
      leave: () => this.#leave(served),
      close: () => this.#close(served),
    }
  }

  /** Whether the agent connects to its servers with a credential that the proxy does not insert. */
  #holdsCredential(run: RunRow): boolean {
    const { serversOf, credentials } = this.#options
    const servers = serversOf?.(run)
    if (!servers) return false
    const agent = RequestedAgent.safeParse(run.agentSpec).data
    const kind = agent && insertedFor(agent)
    const accepting = servers.filter(({ accepts }) => accepts !== undefined && accepts === kind)
    const { destinations } = credentials.forRun(run, accepting)
    return !destinations.some(({ credential }) => credential !== undefined)
  }

  /** Whether the agent itself reaches servers through the proxy. */
  #isForAgent(run: Pick<RunRow, 'agentSpec' | 'owner'>): boolean {
    const { routeOf, serversOf } = this.#options
    return routeOf?.(run) !== undefined || serversOf?.(run) !== undefined
  }

  routes(run: Pick<RunRow, 'agentSpec' | 'owner'>): boolean {
    return this.#options.modelUrl !== undefined && this.#options.routeOf?.(run) !== undefined
  }

  /** Base URL for agents. Undefined without one. Throws `unavailable` if no replica of the proxy is connected. */
  async url(): Promise<string | undefined> {
    const { modelUrl } = this.#options
    if (modelUrl !== undefined) await this.requireRunning()
    return modelUrl
  }

  /** Throws `unavailable` if no replica of the proxy is connected. */
  async requireRunning(): Promise<void> {
    if ((await this.#options.store.countProxies(PROXY_SEEN_MS)) > 0) return
    throw new SandboxError(
      'unavailable',
      'The agent would call its model through the egress proxy, and no replica of it is connected to the service. The operator must look at the pods of the egress proxy.',
    )
  }

  async stop(): Promise<void> {
    this.#unfollow()
    await this.#watch.stop()
    for (const { network } of [...this.#open.values()]) this.#leave(network)
  }

  /** Gives the sandbox of a run its new grant, if this process drives the run. Otherwise the sandbox gets it with its next token. */
  async changed(runId: string): Promise<void> {
    for (const { client, network } of [...this.#open.values()])
      if (network.runId === runId)
        await bestEffort(this.#options.log, 'tell a sandbox its network', () => this.#give(client, network))
  }

  /** The variables of commands depend on the credentials of their owner. */
  async #onCredentials(owners: ReadonlySet<string>): Promise<void> {
    const ofOwners = [...this.#open.values()].filter(({ network }) => owners.has(network.owner))
    for (const { client, network } of ofOwners)
      await bestEffort(this.#options.log, 'give a sandbox the variables of its credentials', () =>
        this.#give(client, network),
      )
  }

  /** Never fails: a run without a network can still work, and its commands print the reason. */
  async #openFor(client: AgentHostClient, network: OwnedNetwork): Promise<void> {
    const { store, log, onChange } = this.#options
    let ms = RENEW_MS
    await bestEffort(log, 'open the network of a sandbox', async () => {
      await store.openNetwork(network)
      onChange()
    })
    try {
      await this.#give(client, network)
    } catch (error) {
      log.warn('a sandbox could not be given its network token', {
        runId: network.runId,
        error: messageOf(error),
      })
      ms = RETRY_MS
    }
    this.#renewLater(client, network, ms)
  }

  async #give(client: AgentHostClient, network: OwnedNetwork): Promise<void> {
    const grant = await this.#grantOf(network)
    await client.giveEgress(grant, AbortSignal.timeout(SEND_MS))
  }

  /** What the sandbox gets now: a person may have allowed more since the last time. */
  async #grantOf({ runId, generation, kind, pod, owner }: OwnedNetwork): Promise<EgressGrant> {
    const { store, rules, credentials, trust, keys, clock } = this.#options
    const run = await store.readRun(runId)
    const listed = run && rules.destinationsOf(run, classOf(run, kind))
    const { environment } = credentials.forRun(
      { id: runId, owner, ...(run && { settings: run.settings }) },
      listed ?? [],
    )
    const isTerminated = listed?.some(({ authority }) => authority !== undefined)
    const sign = (caller: EgressCaller) =>
      signEgressToken(keys.ticketKey, { runId, generation, caller, pod, now: clock() })
    return {
      ...(listed && { commandsToken: await sign('commands') }),
      // An AgentHost of an earlier release does not know this token, so it gets one only if its agent needs it.
      ...(run && this.#isForAgent(run) && { agentHostToken: await sign('agent-host') }),
      ...(isTerminated && { caBundle: trust.bundle }),
      ...(environment && { environment }),
    }
  }

  #renewLater(client: AgentHostClient, network: OwnedNetwork, ms: number): void {
    const key = keyOf(network)
    const renew = async () => {
      let nextMs = RENEW_MS
      try {
        await this.#give(client, network)
      } catch (error) {
        nextMs = RETRY_MS
        const about = { runId: network.runId, error: messageOf(error) }
        this.#options.log.warn('the network token of a sandbox could not be renewed', about)
      }
      if (this.#open.has(key)) this.#renewLater(client, network, nextMs)
    }
    const renewing = setTimeout(() => void renew(), ms)
    renewing.unref()
    this.#open.set(key, { client, network, renewing, isTold: this.#open.get(key)?.isTold ?? false })
  }

  #leave(served: Pick<ServedRun, 'runId' | 'generation'>): void {
    clearTimeout(this.#open.get(keyOf(served))?.renewing)
    this.#open.delete(keyOf(served))
  }

  async #close(served: ServedRun): Promise<void> {
    const { store, log, onChange, writer } = this.#options
    this.#leave(served)
    await bestEffort(log, 'close the network of a sandbox', () => store.closeNetwork(keyPart(served)))
    onChange()
    await writer.settled()
  }

  /** Reports an outage once to each of the runs. */
  async #look(): Promise<void> {
    const { store, log, writer } = this.#options
    if (this.#open.size === 0) return
    await bestEffort(log, 'look for replicas of the egress proxy', async () => {
      const count = await store.countProxies(PROXY_SEEN_MS)
      this.#roundsWithoutProxy = count > 0 ? 0 : this.#roundsWithoutProxy + 1
    })
    const isOut = this.#roundsWithoutProxy >= ROUNDS_WITHOUT_PROXY
    for (const open of this.#open.values()) {
      const { runId, generation } = open.network
      if (isOut && !open.isTold) writer.write(runId, { type: 'denied', generation, data: UNAVAILABLE })
      if (isOut || this.#roundsWithoutProxy === 0) open.isTold = isOut
    }
  }
}

const keyPart = ({ runId, generation }: ServedRun) => ({ runId, generation })
const keyOf = ({ runId, generation }: Pick<ServedRun, 'runId' | 'generation'>) => `${runId} ${generation}`
