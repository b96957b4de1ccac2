import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { type Admission, type AdmitOptions, type Asked, admit, deny } from './admit.ts'
import { parseAbsoluteForm, type Target } from './authority.ts'
import { NO_CREDENTIALS, type Passed } from './credentials/gate.ts'
import { endWith, forward } from './forward.ts'
import { createProxyServer } from './proxy-server.ts'
import { answer, type Refusal, statusOf } from './refusals.ts'
import type { Addressed } from './request-rules.ts'
import { openWebsocket } from './websocket.ts'

/** A client's connection for one target, inside CONNECT. */
export interface Tunnel {
  readonly target: Target
  readonly protocol: 'http' | 'https'
}

type Admitted = Extract<Admission, { ok: true }>

type Found =
  | { readonly ok: true; readonly addressed: Addressed }
  | { readonly ok: false; readonly refusal: Refusal }

interface Queue {
  waiting: number
  last: Promise<void>
}

/** `apt` sends ten requests before it reads the first response. */
const MAX_PIPELINED = 16

/** Serves the requests that the proxy can read. Each is judged, and gets a separate connection to a checked address. */
export class Requests {
  readonly #options: AdmitOptions
  readonly #inner: Server
  readonly #tunnels = new WeakMap<Socket, Tunnel>()
  readonly #queues = new WeakMap<Socket, Queue>()

  constructor(options: AdmitOptions) {
    const { limits } = options
    this.#options = options
    this.#inner = createProxyServer(limits)
    this.#inner.on('request', this.onRequest)
    this.#inner.on('checkContinue', this.onRequest)
    this.#inner.on('upgrade', this.onUpgrade)
    this.#inner.on('connect', this.onUpgrade)
    this.#inner.on('clientError', this.onClientError)
    // Without this, Node does not look for slow headers, because the server never listens.
    this.#inner.emit('listening')
  }

  /** Serves a tunnel whose bytes the proxy can read. */
  serve(client: Socket, tunnel: Tunnel): void {
    this.#tunnels.set(client, tunnel)
    this.#inner.emit('connection', client)
    client.resume()
  }

  close(): void {
    this.#inner.close()
  }

  /** Whether a response is still to be sent on a connection. It would get into a tunnel that is opened on it. */
  isBusy(client: Socket): boolean {
    return (this.#queues.get(client)?.waiting ?? 0) > 0
  }

  /** A request inside a tunnel, or one to the proxy with the absolute form of its target. */
  readonly onRequest = (request: IncomingMessage, response: ServerResponse): void => {
    const client = request.socket
    const queue = this.#queues.get(client) ?? this.#addClient(client)
    queue.waiting += 1
    if (queue.waiting > MAX_PIPELINED) {
      client.destroy()
      return
    }
    // One after the other: each has a connection to the destination, and Node sends the responses in order.
    queue.last = queue.last
      .then(() => this.#serveRequest(request, response))

      .catch(() => {
        client.destroy()
      })
      .finally(() => {
        queue.waiting -= 1
      })
  }

  #addClient(client: Socket): Queue {
    const queue = { waiting: 0, last: Promise.resolve() }
    this.#queues.set(client, queue)
    client.once('end', () => client.setTimeout(this.#options.limits.halfClosedMs))
    return queue
  }

  readonly onUpgrade = (request: IncomingMessage, socket: Duplex, head: Buffer): void => {
    if (this.isBusy(socket as Socket)) {
      socket.destroy()
      return
    }
    this.#serveUpgrade(request, socket as Socket, head).catch(() => socket.destroy())
  }

  async #serveRequest(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const client = request.socket
    if (client.destroyed) return
    const ended = Promise.withResolvers<void>()
    response.once('close', ended.resolve)
    client.once('close', ended.resolve)
    const found = this.#find(request)
    if (!found.ok) {
      endWith(response, statusOf(found.refusal), this.#refuse(found.refusal, request))
      return ended.promise
    }
    const isGone = () => response.destroyed || client.destroyed
    const asked: Asked = { ...found.addressed, request, client, isGone }
    const admission = await admit(this.#options, asked)
    if (!admission.ok) {
      if (!isGone()) endWith(response, admission.status, admission.sentence)
      return isGone() ? undefined : ended.promise
    }
    const { connections } = this.#options
    const { upstream, connection } = admission
    try {
      const isForwarded = await this.#passOn(asked, response, admission)
      if (!isForwarded) upstream.destroy()
      await ended.promise
    } finally {
      // Also if the client leaves while its push is read.
      connections.end(connection)
      client.off('close', ended.resolve)
    }
  }

  async #passOn(asked: Asked, response: ServerResponse, admission: Admitted): Promise<boolean> {
    const passage = await this.#passGate(asked, response, admission)
    if (!passage.ok) return false
    const { headerBytes } = this.#options.limits
    const refuse = (refusal: Refusal) => deny(this.#options, asked, refusal).sentence
    const { upstream, connection } = admission
    const spend = (bytes: number) => this.#options.connections.spend(connection, bytes)
    forward({ ...asked, response, upstream, headerBytes, passed: passage.passed, refuse, spend })
    return true
  }

  /** Inserts the credential of the destination. If the request is refused, its client has the answer. */
  async #passGate(
    asked: Asked,
    response: ServerResponse,
    { destination: { credential, attach, credentialKind: kind } }: Admitted,
  ): Promise<{ readonly ok: true; readonly passed?: Passed } | { readonly ok: false }> {
    if (credential === undefined) return { ok: true }
    const passage = await (this.#options.gate?.pass({ ...asked, response, credential, attach, kind }) ??
      NO_CREDENTIALS)
    if (passage.kind === 'passed') return { ok: true, passed: passage }
    const { status, sentence } = deny(this.#options, asked, passage.refusal)
    if (passage.kind === 'refused' && !asked.isGone()) endWith(response, status, sentence)
    return { ok: false }
  }

  async #serveUpgrade(request: IncomingMessage, client: Socket, head: Buffer): Promise<void> {
    const found = this.#find(request)
    if (!found.ok) {
      answer(client, statusOf(found.refusal), this.#refuse(found.refusal, request))
      return
    }
    const isGone = () => client.destroyed
    const admission = await admit(this.#options, { ...found.addressed, request, client, isGone })
    if (!admission.ok) {
      answer(client, admission.status, admission.sentence)
      return
    }
    const { connections, limits } = this.#options
    const { upstream, connection } = admission
    const end = () => connections.end(connection)
    client.once('close', end)
    upstream.once('close', end)
    client.setTimeout(limits.idleMs, () => client.destroy())
    const sends = (bytes: number) => connections.sends(connection, bytes)
    const { headerBytes } = limits
    openWebsocket({ ...found.addressed, request, client, head, upstream, headerBytes, sends })
  }

  #find(request: IncomingMessage): Found {
    const tunnel = this.#tunnels.get(request.socket)
    const { url = '', method } = request
    if (method === 'CONNECT') return { ok: false, refusal: NO_CONNECT }
    if (tunnel) {
      if (url.startsWith('/')) return { ok: true, addressed: { ...tunnel, path: url } }
      return malformed('the target of a request inside a tunnel must be a path')
    }
    const parsed = parseAbsoluteForm(url)
    if (!parsed.ok) return malformed(parsed.reason)
    return { ok: true, addressed: { target: parsed.target, path: parsed.path, protocol: 'http' } }
  }

  #refuse(
    refusal: Refusal,
    { socket, method }: Pick<IncomingMessage, 'socket'> & { method?: string | undefined },
  ): string {
    const target = this.#tunnels.get(socket)?.target
    const named = { host: target?.host.name ?? 'unknown', port: target?.port ?? 0, method }
    return this.#options.connections.refuse({ ...refusal, ...named })
  }

  /** Not every error is a malformed request: a client may leave, or be too slow. */
  readonly onClientError = ({ code }: NodeJS.ErrnoException, socket: Socket): void => {
    // Data after the last request of a connection is ignored.
    if (code === 'HPE_CLOSED_CONNECTION') return
    if (!code?.startsWith('HPE_')) {
      socket.destroy()
      return
    }
    // A response may be under way.
    const answered = this.#queues.get(socket)?.last ?? Promise.resolve()
    answered
      .then(() => {
        if (socket.writable)
          answer(socket, 400, this.#refuse(malformed('the request is not HTTP/1.1').refusal, { socket }))
      })
      .catch(() => {
        socket.destroy()
      })
  }
}

const NO_CONNECT: Refusal = {
  rule: 'method',
  reason: 'a tunnel inside a tunnel is never opened',
  remedy: 'Send CONNECT to the proxy itself.',
}

const malformed = (reason: string) =>
  ({
    ok: false,
    refusal: {
      rule: 'malformed-request',
      reason,
      remedy: 'Use the proxy variables of the environment unchanged.',
    },
  }) as const
