import type { Server } from 'node:http'
import { isIPv4 } from 'node:net'
import { networkInterfaces } from 'node:os'

/** What a connection is judged by; `net.Socket` is one. */
export type Visitor = {
  readonly remoteAddress?: string | undefined
  once(event: 'close', listener: () => void): unknown
  destroy(): unknown
}

export const DOOR_LIMITS = {
  /** Connections without a credential from elsewhere: a caller that knows the bearer needs one for some milliseconds. */
  strangers: 64,
  /** The same from this pod itself, which are its commands'. */
  own: 16,
  /** Connections on which a credential was shown: the API has one for its stream, and some beside it. */
  known: 256,
} as const

type Limits = { readonly [Name in keyof typeof DOOR_LIMITS]: number }
type Options = { readonly limits?: Limits; readonly isOwn?: (address: string) => boolean }

/**
 * Bounds the connections of a server so that nobody without a credential can take the place of one who has it. Those
 * that have shown none make room for the next, the oldest first; a command of the pod competes with the pod's own alone.
 */
export class Door {
  readonly #limits: Limits
  readonly #isOwn: (address: string) => boolean
  /** In the order of their coming. */
  readonly #strangers = new Set<Visitor>()
  readonly #own = new Set<Visitor>()
  readonly #known = new Set<Visitor>()

  constructor({ limits = DOOR_LIMITS, isOwn = isOwnAddress }: Options = {}) {
    this.#limits = limits
    this.#isOwn = isOwn
  }

  guard(server: Server): void {
    server.on('connection', (socket) => this.enter(socket))
  }

  enter(visitor: Visitor): void {
    const isOwn = this.#isOwn(visitor.remoteAddress ?? '')
    const [waiting, most] = isOwn ? [this.#own, this.#limits.own] : [this.#strangers, this.#limits.strangers]
    waiting.add(visitor)
    visitor.once('close', () => this.#leave(visitor))
    const [oldest] = waiting
    if (waiting.size > most && oldest) this.#turnOut(oldest)
  }

  /** A credential was shown on this connection: from here on it makes room for nobody. */
  know(visitor: Visitor): void {
    const isNew = this.#strangers.delete(visitor) || this.#own.delete(visitor)
    if (!isNew) return
    if (this.#known.size >= this.#limits.known) visitor.destroy()
    else this.#known.add(visitor)
  }

  get size(): number {
    return this.#strangers.size + this.#own.size + this.#known.size
  }

  #turnOut(visitor: Visitor): void {
    this.#leave(visitor)
    visitor.destroy()
  }

  #leave(visitor: Visitor): void {
    for (const group of [this.#strangers, this.#own, this.#known]) group.delete(visitor)
  }
}

/** Of a link-local address; the interfaces are listed without. */
const ZONE = /%.*$/
const MAPPED = /^::ffff:(?=\d+\.)/i

/** Whether an address is one of this network namespace, and so its bearer a process of this pod. */
export function isOwnAddress(address: string): boolean {
  const plain = address.replace(MAPPED, '').replace(ZONE, '')
  if (plain === '::1' || (isIPv4(plain) && plain.startsWith('127.'))) return true
  return Object.values(networkInterfaces()).some((each) => each?.some((own) => own.address === plain))
}
