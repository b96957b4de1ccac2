import { chmodSync, rmSync } from 'node:fs'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { SecureContext } from 'node:tls'
import type { EgressCaller, EgressDestination, EgressRule } from '../../contracts/egress.ts'
import type { Reserve } from './admit.ts'
import { parseAuthority, type Target } from './authority.ts'
import type { Connections, OpenConnection } from './connections.ts'
import { type CredentialGate, NO_CREDENTIALS } from './credentials/gate.ts'
import { type CallerProof, passToBroker } from './credentials/pass-to-broker.ts'
import type { Question } from './decide.ts'
import { type Dialler, dial } from './dial.ts'
import { ModelRequests } from './model/model-requests.ts'
import { isForModel } from './model/route.ts'
import { createProxyServer } from './proxy-server.ts'
import { answer, PRIVATE_REMEDY, type Refusal, statusOf } from './refusals.ts'
import { headersNamed } from './request-headers.ts'
import { Requests } from './requests.ts'
import { collectHello, firstBytes, refuse as refuseTls, type SpliceFault, splice } from './splice.ts'
import { terminate } from './terminate.ts'

export interface EndpointOptions extends Dialler {
  /** The Unix socket of the caller. Without it, the endpoint serves the connections that `accept` gets. */
  readonly socketPath?: string | undefined
  readonly caller: EgressCaller
  readonly connections: Connections
  /** Whether the whole proxy has room for one more connection. */
  readonly hasRoom: () => boolean
  /** Why the proxy opens no connection at all. @default it opens connections */
  readonly closedBy?: (() => Refusal | undefined) | undefined
  /** The certificate for an entry of the policy. */
  readonly contextFor: (authority: string, host: string) => SecureContext | undefined
  /** Roots that a destination's certificate may have. @default the roots of Node */
  readonly roots?: readonly string[] | undefined
  /** Inserts credentials. Without it, connections for destinations with one go to the process that has it. */
  readonly gate?: CredentialGate | undefined
  /** Reserves the tokens of a request to a model. */
  readonly reserve?: Reserve | undefined
  /** Socket of this process, if all sandboxes share one. @default the one that the generation names */
  readonly brokerPath?: string | undefined
}

/** Serves one caller. It speaks HTTP as proxies do. */
export class Endpoint {
  readonly #options: EndpointOptions
  readonly #server: Server
  readonly #requests: Requests
  readonly #sockets = new Set<Socket>()
  readonly #proofs = new WeakMap<Socket, CallerProof>()

  constructor(options: EndpointOptions) {
    const { limits } = options
    this.#options = options
    this.#requests = new Requests({ ...options, overload: () => this.#overload() })
    this.#server = createProxyServer(limits)
    this.#server.maxConnections = limits.connectionsPerRun
    this.#server.on('connection', (socket) => this.#track(socket))
    this.#server.on('connect', (request: IncomingMessage, client: Socket, head: Buffer) => {
      this.#onConnect(request, client, head).catch(() => client.destroy())
    })
    const models = new ModelRequests({ ...options, overload: () => this.#overload() })
    const onRequest = (request: IncomingMessage, response: ServerResponse) =>
      (isForModel(request.url ?? '') ? models : this.#requests).onRequest(request, response)
    this.#server.on('request', onRequest)
    this.#server.on('checkContinue', onRequest)
    this.#server.on('upgrade', this.#requests.onUpgrade)
    this.#server.on('clientError', this.#requests.onClientError)
  }

  async listen(): Promise<void> {
    const { socketPath } = this.#options
    if (socketPath === undefined) return
    rmSync(socketPath, { force: true })
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    // Also later: an error of one accept must not end the proxy of all runs.
    this.#server.on('error', reject)
    this.#server.listen(socketPath, () => resolve())
    await promise
    // Commands of a sandbox run as the user of the service.
    chmodSync(socketPath, 0o600)
  }

  /** Serves a connection from its first byte. The caller was identified by a token. */
  accept(socket: Socket, proof: CallerProof): void {
    if (this.#sockets.size >= this.#options.limits.connectionsPerRun) {
      answer(socket, 429, this.#options.connections.refuse({ ...this.#tooMany(), host: 'unknown', port: 0 }))
      // A socket that is closed with unread bytes may lose the answer.
      socket.resume()
      return
    }
    this.#proofs.set(socket, proof)
    this.#server.emit('connection', socket)
    socket.resume()
  }

  /** Closes the socket and every connection. */
  close(): void {
    const { socketPath } = this.#options
    this.#server.close()
    this.#requests.close()
    for (const socket of this.#sockets) socket.destroy()
    if (socketPath !== undefined) rmSync(socketPath, { force: true })
  }

  #track(socket: Socket): void {
    this.#sockets.add(socket)
    // Without a listener, one client that leaves at the wrong moment would end the proxy of all runs.
    socket.on('error', () => socket.destroy())
    socket.once('close', () => this.#sockets.delete(socket))
  }

  async #onConnect(request: IncomingMessage, client: Socket, head: Buffer): Promise<void> {
    const { caller, limits } = this.#options
    if (this.#requests.isBusy(client)) {
      client.destroy()
      return
    }
    const parsed = targetOfConnect(request)
    if (!parsed.ok) {
      const shown = { ...malformed(parsed.reason), host: shownHost(request.url), port: 0 }
      answer(client, 400, this.#options.connections.refuse(shown))
      return
    }
    client.setTimeout(limits.idleMs, () => client.destroy())
    const question: Question = { ...parsed.target, caller, protocol: 'connect' }
    const { connections } = this.#options
    const refusal = this.#overload() ?? this.#refusalOf(question) ?? connections.overuse(question)
    if (refusal) this.#refuse(client, question, refusal)
    else await this.#serve(question, client, head)
  }

  async #serve(asked: Question, client: Socket, head: Buffer): Promise<void> {
    const { connections, gate } = this.#options
    const decision = connections.decide(asked)
    if (!decision.ok) return this.#refuse(client, asked, decision.refusal)
    const { destination } = decision
    if (destination.credential !== undefined && !gate) return this.#passOn(asked, client, head)
    const protocol = destination.authority === undefined ? 'tls' : 'https'
    const spent = connections.overuse(asked, destination)
    if (spent) return this.#refuse(client, asked, spent)
    const connection = connections.begin({ ...asked, protocol }, client, { destination })
    client.once('close', () => connections.end(connection))
    // At once, because the client may have ended its side.
    if (head.length > 0) client.unshift(head)
    if (destination.authority === undefined) await this.#serveUnread(connection, destination)
    else await this.#serveRead(connection, { authority: destination.authority, host: destination.host })
  }

  /** The other process judges the connection again. This one holds no credential, and counts the bytes of the run. */
  #passOn(asked: Question, client: Socket, head: Buffer): void {
    const { connections } = this.#options
    const brokerPath = this.#options.brokerPath ?? connections.generation?.brokerPath
    const refuse = (refusal: Refusal) => this.#refuse(client, asked, refusal)
    if (brokerPath === undefined) {
      refuse(NO_CREDENTIALS.refusal)
      return
    }
    const connection = connections.begin({ ...asked, protocol: 'https' }, client, { isPassedOn: true })
    client.once('close', () => connections.end(connection))
    const passed = { target: asked, head, brokerPath, proof: this.#proofs.get(client) }
    connection.upstream = passToBroker(client, passed, () => refuse(BROKER_GONE))
  }

  /** Connects the client with its destination, and passes TLS on unread. */
  async #serveUnread(connection: OpenConnection, destination: EgressDestination): Promise<void> {
    const { limits } = this.#options
    const { client, question } = connection
    const dialled = await dial(this.#options, question, destination)
    if (!dialled.ok) return this.#failed(client, question, dialled)
    connection.upstream = dialled.socket
    dialled.socket.on('error', () => dialled.socket.destroy())
    dialled.socket.setTimeout(limits.idleMs, () => dialled.socket.destroy())
    // The state may have changed since, or the client may be gone.
    const late = this.#refusalOf(question)
    if (late || client.destroyed) {
      dialled.socket.destroy()
      if (late) this.#refuse(client, question, late)
      return
    }
    client.write(ESTABLISHED)
    const bytes = await this.#tlsBytes(connection)
    if (!bytes) return
    dialled.socket.once('close', () => client.destroySoon())
    const sends = (count: number) => this.#options.connections.sends(connection, count)
    const parts = { client, upstream: dialled.socket, host: question.host, limits, sends }
    const fault = await splice(parts, bytes)
    if (fault) this.#reportFault(question, fault)
  }

  /** Becomes the TLS server of the client. Each of its requests gets a connection, after it was judged. */
  async #serveRead(
    connection: OpenConnection,
    entry: { readonly authority: string; readonly host: string },
  ): Promise<void> {
    const { limits, contextFor, connections } = this.#options
    const { client, question } = connection
    const context = contextFor(entry.authority, entry.host)
    if (!context) return this.#refuse(client, question, NO_CERTIFICATE)
    client.write(ESTABLISHED)
    const bytes = await this.#tlsBytes({ ...connection })
    if (!bytes) return
    const hello = await collectHello({ client, host: question.host, limits }, bytes)
    if (!hello?.ok) {
      const fault = refuseTls(client, hello?.fault)
      if (fault) this.#reportFault(question, fault)
      return
    }
    client.unshift(hello.bytes)
    const terminated = await terminate(client, { context, ms: limits.handshakeMs })
    const { host, port } = question
    if (terminated.ok) this.#requests.serve(terminated.socket, { target: { host, port }, protocol: 'https' })
    else if (terminated.refusal) connections.refuse({ ...terminated.refusal, host: host.name, port })
  }

  /** The first bytes of TLS. Undefined if the client does not speak TLS: each of its requests is judged then. */
  async #tlsBytes(connection: OpenConnection): Promise<Buffer | undefined> {
    const { limits, connections } = this.#options
    const { client, question } = connection
    const first = await firstBytes(client, limits.handshakeMs)
    if (!first) client.destroy()
    if (!first || first.isTls) return first?.bytes
    // The connection was opened for TLS.
    connections.end(connection)
    const { host, port } = question
    this.#requests.serve(client, { target: { host, port }, protocol: 'http' })
    return undefined
  }

  #reportFault({ host, port }: Target, fault: SpliceFault): void {
    const remedy = 'Connect with the name of the host, and with TLS that shows this name.'
    this.#options.connections.refuse({ ...fault, remedy, host: host.name, port })
  }

  #refusalOf(question: Question): Refusal | undefined {
    const decision = this.#options.connections.decide(question)
    return decision.ok ? undefined : decision.refusal
  }

  #overload(): Refusal | undefined {
    const { connections, limits, hasRoom, closedBy } = this.#options
    const closed = closedBy?.()
    if (closed) return closed
    if (connections.isSpent) return connections.spentRefusal
    return connections.count < limits.connectionsPerRun && hasRoom() ? undefined : this.#tooMany()
  }

  #tooMany(): Refusal {
    const { connectionsPerRun } = this.#options.limits
    const reason = `there are too many open connections; the limit of a sandbox is ${connectionsPerRun}`
    return { rule: 'too-many-connections', reason, remedy: 'Close some of them and try again.' }
  }

  #refuse(client: Socket, { host, port }: Target, refusal: Refusal): void {
    const sentence = this.#options.connections.refuse({ ...refusal, host: host.name, port })
    answer(client, statusOf(refusal), sentence)
  }

  #failed(
    client: Socket,
    question: Question,
    failed: { rule?: EgressRule | undefined; reason: string },
  ): void {
    const { host, port } = question
    if (failed.rule === undefined) {
      answer(client, 502, `Connection to ${host.name}:${port} failed: ${failed.reason}.`)
      return
    }
    this.#refuse(client, question, { rule: failed.rule, reason: failed.reason, remedy: PRIVATE_REMEDY })
  }
}

const ESTABLISHED = 'HTTP/1.1 200 Connection established\r\n\r\n'

const NO_CERTIFICATE: Refusal = {
  rule: 'proxy-unavailable',
  reason: 'the egress proxy has no certificate for it',
  remedy: 'The service sends one soon. Repeat the command.',
}

export const BROKER_GONE: Refusal = {
  rule: 'proxy-unavailable',
  reason: 'the process that inserts credentials is not running',
  remedy: 'The service starts it again. Repeat the command.',
}

const malformed = (reason: string): Refusal => ({
  rule: 'malformed-request',
  reason,
  remedy: 'Use the proxy variables of the environment unchanged.',
})

const shownHost = (url: string | undefined) =>
  (url ?? 'unknown').replaceAll(/[^\x21-\x7e]/g, '?').slice(0, 253)

/** The target of a CONNECT request. A `Host` header must name the same one. */
function targetOfConnect(request: IncomingMessage) {
  const parsed = parseAuthority(request.url ?? '')
  if (!parsed.ok) return parsed
  const { 'content-length': length = '0', 'transfer-encoding': encoding } = request.headers
  if (length !== '0' || encoding !== undefined)
    return { ok: false, reason: 'CONNECT must have no body' } as const
  const hosts = headersNamed(request, 'host')
  const isSame = hosts.every((host) => isSameTarget(host, parsed.target))
  if (hosts.length > 1 || !isSame)
    return { ok: false, reason: 'the Host header names another target than the request' } as const
  return parsed
}

/** Some clients send `Host` without the port. */
function isSameTarget(host: string, { host: { name }, port }: Target): boolean {
  const parsed = parseAuthority(/:\d+$/.test(host) ? host : `${host}:${port}`)
  return parsed.ok && parsed.target.host.name === name && parsed.target.port === port
}
