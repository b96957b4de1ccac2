import type { Socket } from 'node:net'
import type { EgressCaller, EgressGeneration, EgressReport, EgressState } from '../../contracts/egress.ts'
import { unlessAborted } from '../kit/deadline.ts'
import { messageOf } from '../kit/errors.ts'
import type { Reserve } from './admit.ts'
import { Connections, type TakeShare } from './connections.ts'
import { CredentialGate } from './credentials/gate.ts'
import { passRequestToBroker } from './credentials/pass-to-broker.ts'
import type { ProxyIdentity } from './credentials/proxy-identity.ts'
import type { CredentialValues } from './credentials/values.ts'
import type { Question } from './decide.ts'
import type { Dialler } from './dial.ts'
import { BROKER_GONE, Endpoint } from './endpoint.ts'
import { LeafCache } from './leaf-cache.ts'
import { EGRESS_LIMITS } from './limits.ts'
import { limitLookUps, resolveBySystem } from './look-ups.ts'
import { serverOf } from './model/route.ts'
import { answer, type Refusal } from './refusals.ts'

export interface EgressProxyOptions extends Partial<Dialler> {
  readonly report: (report: EgressReport) => void
  readonly now?: () => number
  /** Why the proxy opens no connection at all. @default it opens connections */
  readonly closedBy?: () => Refusal | undefined
  /** Roots that a destination's certificate may have. @default the roots of Node */
  readonly roots?: readonly string[]
  /** Makes this the process that inserts credentials. */
  readonly credentials?: CredentialValues
  /** With `credentials`: an identity of the proxy itself, for the models of agents. */
  readonly identity?: ProxyIdentity
  /** Reserves the tokens of a request to a model. Without it, runs with a budget call no model. */
  readonly reserve?: Reserve
  /** In a cluster: takes a share of the bytes of a run. Without it, this process alone counts them. */
  readonly takeShare?: TakeShare
  /** In a cluster: the socket of the process that inserts credentials. */
  readonly brokerPath?: string
}

/** A caller that a token identifies, and where its connection comes from. */
export interface IdentifiedCaller {
  readonly runId: string
  readonly generation: number
  readonly caller: EgressCaller
  readonly podUid: string
  readonly address: string
  /** The token itself, for the process that inserts credentials. */
  readonly token: string
}

/** The request with which a caller has identified itself. Its bytes are still in the socket. */
export interface FirstRequest {
  /** Whether it is a request to the model. */
  readonly isModel: boolean
}

interface Served {
  readonly gate?: CredentialGate | undefined
  readonly connections: Connections
  readonly endpoints: Map<EgressCaller, Endpoint>
  generation: EgressGeneration
}

const UNAVAILABLE = {
  host: 'all hosts',
  port: 0,
  rule: 'proxy-unavailable',
  remedy: 'Start a new run.',
} as const

const NOT_LISTED: Refusal = {
  rule: 'run-ended',
  reason: 'the sandbox has no network access, or not any more',
  remedy: 'Start a new run with network access.',
}

const ELSEWHERE: Refusal = {
  rule: 'identity',
  reason: 'a token of this sandbox was used from another address',
  remedy: 'Stop the run and find out how its token left the sandbox.',
}

const sentenceOf = ({ reason, remedy }: Refusal) => `Connection refused: ${reason}. ${remedy}`

const keyOf = ({ runId, generation }: Pick<EgressGeneration, 'runId' | 'generation'>) =>
  `${runId} ${generation}`

/** The egress proxy. It allows what the newest state lists, and nothing else. */
export class EgressProxy {
  readonly #options: EgressProxyOptions
  readonly #served = new Map<string, Served>()
  readonly #leaves: LeafCache
  readonly #meter: NodeJS.Timeout
  #nextState = Promise.withResolvers<void>()

  constructor(options: EgressProxyOptions) {
    this.#options = options
    this.#leaves = new LeafCache({ now: options.now ?? Date.now })
    const { meterMs } = options.limits ?? EGRESS_LIMITS
    this.#meter = setInterval(() => this.#measure(), meterMs)
    this.#meter.unref()
  }

  /** Takes a state over. Connections that it does not allow are closed before this returns. */
  async apply(state: EgressState): Promise<void> {
    this.#leaves.setAuthorities(state.authorities ?? [])
    this.#options.credentials?.retain(state.generations)
    const listed = new Map(state.generations.map((generation) => [keyOf(generation), generation]))
    for (const [key, served] of this.#served) {
      const generation = listed.get(key)
      // Another pod is another sandbox.
      if (generation && generation.pod?.uid === served.generation.pod?.uid) {
        served.generation = generation
        served.gate?.judge(generation)
        served.connections.judge(generation)
      } else this.#close(key, served)
    }
    const added = [...listed].filter(([key]) => !this.#served.has(key))
    await Promise.all(added.map(([key, generation]) => this.#open(key, generation)))
    this.#nextState.resolve()
    this.#nextState = Promise.withResolvers()
  }

  /**
   * Waits until the state lists the sandbox of a caller, for at most `ms`. A caller with a valid token may connect before
   * the message that lists its sandbox arrives, because each replica follows its own stream.
   */
  async untilListed(caller: Omit<IdentifiedCaller, 'token'>, ms: number): Promise<void> {
    const giveUp = AbortSignal.timeout(ms)
    while (!this.#servedTo(caller) && !giveUp.aborted)
      await unlessAborted(this.#nextState.promise, giveUp).catch(() => undefined)
  }

  /** Serves a connection of a sandbox without a Unix socket. Returns the sentence of a refusal, or undefined. */
  accept(caller: IdentifiedCaller, socket: Socket, first: FirstRequest): string | undefined {
    const served = this.#servedTo(caller)
    if (!served) return sentenceOf(NOT_LISTED)
    if (!served.generation.pod?.addresses.includes(caller.address)) {
      served.connections.refuse({ ...ELSEWHERE, host: 'all hosts', port: 0 })
      return sentenceOf(ELSEWHERE)
    }
    const { modelRoute } = served.generation
    const isBrokered = first.isModel && caller.caller === 'agent-host' && modelRoute?.credential !== undefined
    if (isBrokered && !served.gate) {
      this.#passModelOn(served, socket, caller.address)
      return undefined
    }
    const known = served.endpoints.get(caller.caller)
    const endpoint = known ?? this.#endpoint(served, { caller: caller.caller })
    served.endpoints.set(caller.caller, endpoint)
    endpoint.accept(socket, { token: caller.token, address: caller.address })
    return undefined
  }

  /** The open connections of all sandboxes. */
  get count(): number {
    let count = 0
    this.#forEach(({ connections }) => {
      count += connections.count
    })
    return count
  }

  /** The sandboxes of the newest state. */
  get sandboxes(): number {
    return this.#served.size
  }

  close(): void {
    clearInterval(this.#meter)
    for (const [key, served] of this.#served) this.#close(key, served)
  }

  /** The process that inserts credentials judges the requests. This one holds no credential. */
  #passModelOn(
    { connections, generation: { modelRoute: route } }: Served,
    socket: Socket,
    address: string,
  ): void {
    const server = route && serverOf(route)
    const { host, port } = server?.target ?? { host: { kind: 'name', name: 'the model server' }, port: 0 }
    const gone = () => answer(socket, 503, connections.refuse({ ...BROKER_GONE, host: host.name, port }))
    const { brokerPath = route?.brokerPath, brokerPath: shared } = this.#options
    if (brokerPath === undefined) {
      gone()
      return
    }
    const question: Question = { host, port, caller: 'agent-host', protocol: 'model' }
    const connection = connections.begin(question, socket, { isPassedOn: true })
    socket.once('close', () => connections.end(connection))
    // A socket that all sandboxes share does not identify the client.
    const passed = { brokerPath, ...(shared !== undefined && { address }) }
    connection.upstream = passRequestToBroker(socket, passed, gone)
  }

  #servedTo(caller: Omit<IdentifiedCaller, 'token'>): Served | undefined {
    const served = this.#served.get(keyOf(caller))
    return served?.generation.pod?.uid === caller.podUid ? served : undefined
  }

  #measure(): void {
    this.#forEach(meter)
    const { bufferedBytes } = this.#options.limits ?? EGRESS_LIMITS
    const all = [...this.#served.values()].flatMap(({ connections }) => connections.buffered())
    let total = all.reduce((sum, { bytes }) => sum + bytes, 0)
    for (const { bytes, close } of all.sort((a, b) => b.bytes - a.bytes)) {
      if (total <= bufferedBytes) return
      close()
      total -= bytes
    }
  }

  async #open(key: string, generation: EgressGeneration): Promise<void> {
    const { limits = EGRESS_LIMITS, now = Date.now, report, takeShare } = this.#options
    const { credentials: values, identity } = this.#options
    const connections = new Connections(generation, { limits, report, now, takeShare })
    const { repeatMs } = limits
    const gate = values && new CredentialGate({ generation, values, identity, report, now, repeatMs })
    const served: Served = { connections, endpoints: new Map(), gate, generation }
    this.#served.set(key, served)
    try {
      await this.#listen(served, 'commands', generation.socketPath)
      await this.#listen(served, 'agent-host', generation.agentHostSocketPath)
    } catch (error) {
      // The sandbox may be gone already. The others keep their network.
      const cause = messageOf(error)
      connections.refuse({ ...UNAVAILABLE, reason: `the proxy cannot serve this sandbox: ${cause}` })
      this.#close(key, served)
    }
  }

  async #listen(served: Served, caller: EgressCaller, socketPath: string | undefined): Promise<void> {
    if (socketPath === undefined) return
    const endpoint = this.#endpoint(served, { caller, socketPath })
    served.endpoints.set(caller, endpoint)
    await endpoint.listen()
  }

  #endpoint(
    { connections, gate }: Served,
    where: { readonly caller: EgressCaller; readonly socketPath?: string },
  ): Endpoint {
    const { limits = EGRESS_LIMITS } = this.#options
    const resolve = limitLookUps(this.#options.resolve ?? resolveBySystem, limits.lookupsPerRun)
    const hasRoom = () => this.count < limits.connections
    const contextFor = (authority: string, host: string) => this.#leaves.contextFor(authority, host)
    const served = { connections, gate, contextFor, hasRoom }
    return new Endpoint({ ...this.#options, limits, resolve, ...where, ...served })
  }

  #close(key: string, { connections, endpoints, gate }: Served): void {
    this.#served.delete(key)
    gate?.close()
    connections.close()
    for (const endpoint of endpoints.values()) endpoint.close()
  }

  #forEach(visit: (served: Served) => void): void {
    for (const served of this.#served.values()) visit(served)
  }
}

function meter({ connections, gate }: Served): void {
  connections.meter()
  gate?.meter()
}
