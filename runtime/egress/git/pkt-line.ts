/** Length prefix of a pkt-line, the framing of git's protocol. Git reads upper case too, but never writes it. */
const LENGTH = /^[0-9a-f]{4}$/
const PREFIX_BYTES = 4

export const FLUSH = '0000'

export type PktReading =
  | { readonly kind: 'more' }
  | { readonly kind: 'flush' }
  | { readonly kind: 'line'; readonly payload: Buffer }
  | { readonly kind: 'malformed' }

/** Splits a stream into pkt-lines. Holds at most one incomplete line, which is bounded by `longest`. */
export class PktReader {
  readonly #longest: number
  #held: Buffer = Buffer.alloc(0)

  constructor(longest: number) {
    this.#longest = longest
  }

  add(chunk: Buffer): void {
    this.#held = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk])
  }

  /** Bytes after the last line that was read. */
  get rest(): Buffer {
    return this.#held
  }

  next(): PktReading {
    if (this.#held.length < PREFIX_BYTES) return { kind: 'more' }
    const prefix = this.#held.toString('latin1', 0, PREFIX_BYTES)
    if (!LENGTH.test(prefix)) return { kind: 'malformed' }
    if (prefix === FLUSH) {
      this.#held = this.#held.subarray(PREFIX_BYTES)
      return { kind: 'flush' }
    }
    const length = Number.parseInt(prefix, 16)
    // Shorter ones are the delimiters of protocol version 2.
    if (length <= PREFIX_BYTES || length > this.#longest) return { kind: 'malformed' }
    if (this.#held.length < length) return { kind: 'more' }
    const payload = this.#held.subarray(PREFIX_BYTES, length)
    this.#held = this.#held.subarray(length)
    return { kind: 'line', payload }
  }
}

/** Encodes a pkt-line. */
export function pktLine(payload: string | Buffer): Buffer {
  const bytes = Buffer.from(payload)
  const prefix = (bytes.length + PREFIX_BYTES).toString(16).padStart(PREFIX_BYTES, '0')
  return Buffer.concat([Buffer.from(prefix), bytes])
}
