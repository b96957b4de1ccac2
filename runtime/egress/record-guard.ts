const HANDSHAKE = 22
const APPLICATION_DATA = 23
const HEADER = 5

/**
 * Follows the TLS records that a client sends after its ClientHello. A handshake record after data begins a renegotiation
 * of TLS 1.2, whose ClientHello is encrypted and may name another host. TLS 1.3 sends everything as data.
 */
export class RecordGuard {
  #header: number[] = []
  #left = 0
  #hasData = false

  /** Whether the bytes begin a renegotiation. */
  renegotiates(bytes: Uint8Array): boolean {
    for (let at = 0; at < bytes.length; ) {
      if (this.#left > 0) {
        const taken = Math.min(this.#left, bytes.length - at)
        this.#left -= taken
        at += taken
        continue
      }
      this.#header.push(bytes[at] as number)
      at += 1
      if (this.#header.length === HEADER && this.#begins()) return true
    }
    return false
  }

  #begins(): boolean {
    const [type, , , high = 0, low = 0] = this.#header
    this.#header = []
    this.#left = (high << 8) | low
    if (type === APPLICATION_DATA) this.#hasData = true
    return type === HANDSHAKE && this.#hasData
  }
}
