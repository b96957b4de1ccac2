import type { Server } from 'node:http'
import { isIPv4 } from 'node:net'
import { networkInterfaces } from 'node:os'

/** The part of `net.Socket` that the limiter uses. */
export type Connection = {
  readonly remoteAddress?: string | undefined
  once(event: 'close', listener: () => void): unknown
  destroy(): unknown
}

export const CONNECTION_LIMITS = {
  /** Unauthenticated connections from outside the pod. A caller with the bearer token needs one for milliseconds. */
  unauthenticated: 64,
  /** Unauthenticated connections from inside the pod, that is, from its commands. */
  local: 16,
  /** Authenticated connections: the API holds one for its event stream and opens a few more. */
  authenticated: 256,
} as const

type Limits = { readonly [Name in keyof typeof CONNECTION_LIMITS]: number }
type Options = { readonly limits?: Limits; readonly isLocal?: (address: string) => boolean }

/**
 * Bounds the connections of a server, so that unauthenticated clients cannot keep out an authenticated one. At its limit
 * the oldest unauthenticated connection is closed for the next. Commands in the pod have a separate limit, so they
 * can only close each other's connections.
 */
export class ConnectionLimiter {
  readonly #limits: Limits
  readonly #isLocal: (address: string) => boolean
  /** The sets keep insertion order, so the first element is the oldest. */
  readonly #unauthenticated = new Set<Connection>()
  readonly #local = new Set<Connection>()
  readonly #authenticated = new Set<Connection>()

  constructor({ limits = CONNECTION_LIMITS, isLocal = isLocalAddress }: Options = {}) {
    this.#limits = limits
    this.#isLocal = isLocal
  }

  attach(server: Server): void {
    server.on('connection', (socket) => this.accept(socket))
  }

  accept(connection: Connection): void {
    const isLocal = this.#isLocal(connection.remoteAddress ?? '')
    const [group, limit] = isLocal
      ? [this.#local, this.#limits.local]
      : [this.#unauthenticated, this.#limits.unauthenticated]
    group.add(connection)
    connection.once('close', () => this.#remove(connection))
    const [oldest] = group
    if (group.size > limit && oldest) this.#evict(oldest)
  }

  /** Marks a connection whose credential was verified. It is never closed for another one. */
  authenticate(connection: Connection): void {
    const isNew = this.#unauthenticated.delete(connection) || this.#local.delete(connection)
    if (!isNew) return
    if (this.#authenticated.size >= this.#limits.authenticated) connection.destroy()
    else this.#authenticated.add(connection)
  }

  get size(): number {
    return this.#unauthenticated.size + this.#local.size + this.#authenticated.size
  }

  #evict(connection: Connection): void {
    this.#remove(connection)
    connection.destroy()
  }

  #remove(connection: Connection): void {
    for (const group of [this.#unauthenticated, this.#local, this.#authenticated]) group.delete(connection)
  }
}

/** Zone of a link-local address. `networkInterfaces` lists addresses without it. */
const ZONE = /%.*$/
const IPV4_MAPPED = /^::ffff:(?=\d+\.)/i

/** Whether an address belongs to this network namespace, so that its owner is a process of this pod. */
export function isLocalAddress(address: string): boolean {
  const plain = address.replace(IPV4_MAPPED, '').replace(ZONE, '')
  if (plain === '::1' || (isIPv4(plain) && plain.startsWith('127.'))) return true
  return Object.values(networkInterfaces()).some((each) => each?.some((own) => own.address === plain))
}
