import { chmodSync, rmSync } from 'node:fs'
import { createServer, type ListenOptions, type Server, type Socket } from 'node:net'
import { messageOf } from '../../kit/errors.ts'
import type { Log } from '../../kit/log.ts'
import { collect } from '../collect.ts'
import type { EgressLimits } from '../limits.ts'
import type { EgressProxy } from '../proxy.ts'
import { answer, type Refusal } from '../refusals.ts'
import { clientOf, headOf, isModelHead, tokenOf } from './request-token.ts'
import type { VerifiedToken } from './verify-token.ts'

export interface TokenListenerOptions {
  readonly proxy: Pick<EgressProxy, 'accept' | 'untilListed'>
  readonly verify: (token: string) => Promise<VerifiedToken>
  /** Why the proxy opens no connection at all. */
  readonly closedBy: () => Refusal | undefined
  readonly limits: EgressLimits
  /** Whether the clients are connections of the other process of the proxy, which names the address of each. */
  readonly isBehindProxy?: boolean
  readonly onRefused: (why: RefusedCaller) => void
  readonly log: Log
}

export type RefusedCaller = 'no-lease' | 'no-token' | 'bad-token' | 'not-listed' | 'too-many'

/** Connections of one address that have not shown a token yet. A relay sends the token with the first packet. */
const UNIDENTIFIED_PER_ADDRESS = 128

const NO_TOKEN =
  'Connection refused: the egress proxy needs the token of a sandbox. Use the proxy variables of the environment unchanged.'
const BAD_TOKEN =
  'Connection refused: the token of this sandbox is not valid. Try again; if it happens again, report it to the operator of Agentweaver.'

/**
 * The port of the proxy for all sandboxes. The first request of a connection carries the token that identifies the caller;
 * the connection then belongs to this caller until it ends.
 */
export class TokenListener {
  readonly #options: TokenListenerOptions
  readonly #server: Server
  readonly #unidentified = new Map<string, number>()

  constructor(options: TokenListenerOptions) {
    this.#options = options
    this.#server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) =>
      this.#onConnection(socket),
    )
    this.#server.maxConnections = 2 * options.limits.connections
    this.#server.on('error', (error) =>
      options.log.error('the port for sandboxes failed', { error: messageOf(error) }),
    )
  }

  async listen(port: number, host = '::'): Promise<number> {
    await this.#listen({ port, host })
    const address = this.#server.address()
    return typeof address === 'object' && address ? address.port : port
  }

  /** Listens at a Unix socket. An earlier process of this container may have left the file. */
  async listenAt(path: string): Promise<void> {
    rmSync(path, { force: true })
    await this.#listen({ path })
    chmodSync(path, 0o600)
  }

  /** Accepts no further connection. */
  close(): void {
    this.#server.close()
  }

  async #listen(options: ListenOptions): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    this.#server.once('error', reject)
    this.#server.listen(options, resolve)
    await promise
  }

  #onConnection(socket: Socket): void {
    socket.on('error', () => socket.destroy())
    const address = plainAddress(socket.remoteAddress)
    const waiting = this.#unidentified.get(address) ?? 0
    const { isBehindProxy = false, limits } = this.#options
    // The other process has limited the addresses.
    if (waiting >= (isBehindProxy ? limits.connections : UNIDENTIFIED_PER_ADDRESS)) {
      this.#options.onRefused('too-many')
      socket.destroy()
      return
    }
    this.#unidentified.set(address, waiting + 1)
    this.#identify(socket, address)
      .catch((error: unknown) => {
        this.#options.log.error('a connection could not be served', { error: messageOf(error) })
        socket.destroy()
      })
      .finally(() => {
        const left = (this.#unidentified.get(address) ?? 1) - 1
        if (left > 0) this.#unidentified.set(address, left)
        else this.#unidentified.delete(address)
      })
  }

  async #identify(socket: Socket, address: string): Promise<void> {
    const { proxy, verify, closedBy, limits, isBehindProxy } = this.#options
    const read = (bytes: Buffer) => {
      const head = headOf(bytes)
      return head !== undefined || bytes.length > limits.headerBytes ? { head } : undefined
    }
    const first = await collect(socket, {
      before: Buffer.alloc(0),
      read,
      ms: limits.headerMs,
      leaves: () => true,
    })
    if (!first) {
      socket.destroy()
      return
    }
    const { head } = first.result
    if (head === undefined) return end(socket, 431, 'The header of the request is too long.')
    const closed = closedBy()
    if (closed) return this.#refuse(socket, 503, { why: 'no-lease', sentence: sentenceOf(closed) })
    const isModel = isModelHead(head)
    const unidentified = isModel ? 401 : 407
    const token = tokenOf(head)
    if (token === undefined)
      return this.#refuse(socket, unidentified, { why: 'no-token', sentence: NO_TOKEN })
    const client = isBehindProxy ? clientOf(head) : address
    const verified = await verify(token)
    if (!verified.ok) {
      this.#options.log.info('a token was refused', { address: client, reason: verified.reason })
      return this.#refuse(socket, unidentified, { why: 'bad-token', sentence: BAD_TOKEN })
    }
    const { sub: runId, generation, caller, pod } = verified.claims
    const identified = { runId, generation, caller, podUid: pod.uid, address: client, token }
    await proxy.untilListed(identified, limits.listedMs)
    if (socket.destroyed) return undefined
    const refused = proxy.accept(identified, socket, { isModel })
    if (refused !== undefined) this.#refuse(socket, 403, { why: 'not-listed', sentence: refused })
    return undefined
  }

  #refuse(socket: Socket, status: number, { why, sentence }: { why: RefusedCaller; sentence: string }): void {
    this.#options.onRefused(why)
    end(socket, status, sentence)
  }
}

/** How long a refused client may take to read its answer. */
const LINGER_MS = 2_000

function end(socket: Socket, status: number, sentence: string): void {
  answer(socket, status, sentence)
  socket.resume()
  socket.setTimeout(LINGER_MS, () => socket.destroy())
}

const sentenceOf = ({ reason, remedy }: Refusal) => `Connection refused: ${reason}. ${remedy}`

/** The address of an IPv4 client as Kubernetes writes it. */
const plainAddress = (address = '') => address.replace(/^::ffff:(?=\d+\.)/i, '')
