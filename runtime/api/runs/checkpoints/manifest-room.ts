import { withTimeout } from '../../../kit/deadline.ts'
import { SandboxError } from '../../../kit/errors.ts'

/** Manifests up to this size do not wait. A process that handles 100 of them at the same time needs about 250 MiB. */
export const SMALL_MANIFEST_BYTES = 262_144

/** Thrown to a manifest that is too large to be handled together with the one that is in the room. */
export class ManifestRoomTaken extends SandboxError {
  constructor() {
    super('too_many_streams', 'Another large workspace is handled at the moment. Try again in a minute.')
  }
}

/**
 * The memory of this process for a large manifest, which needs about ten times its size. One manifest at a time is in it.
 * Owners take turns, so that one owner with many sandboxes does not keep the others out.
 */
export class ManifestRoom {
  readonly #waiting = new Map<string, (() => void)[]>()
  #isTaken = false

  /** Resolves with the function that leaves the room. Rejects with the signal's reason if it aborts first. */
  async enter(owner: string, signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted()
    if (this.#isTaken) await this.#turnOf(owner, signal)
    this.#isTaken = true
    let hasLeft = false
    return () => {
      if (hasLeft) return
      hasLeft = true
      this.#passOn()
    }
  }

  async #turnOf(owner: string, signal: AbortSignal): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    this.#waiting.set(owner, [...(this.#waiting.get(owner) ?? []), resolve])
    const onAbort = () => {
      const line = this.#waiting.get(owner) ?? []
      // It has the room already.
      if (!line.includes(resolve)) return
      this.#setLine(
        owner,
        line.filter((one) => one !== resolve),
      )
      reject(signal.reason)
    }
    signal.addEventListener('abort', onAbort, { once: true })
    await promise.finally(() => signal.removeEventListener('abort', onAbort))
  }

  /** Gives the room to the next owner, who then waits behind the other owners. */
  #passOn(): void {
    const [next] = this.#waiting
    if (!next) {
      this.#isTaken = false
      return
    }
    const [owner, [resolve, ...others]] = next
    this.#waiting.delete(owner)
    this.#setLine(owner, others)
    resolve?.()
  }

  #setLine(owner: string, line: (() => void)[]): void {
    if (line.length > 0) this.#waiting.set(owner, line)
    else this.#waiting.delete(owner)
  }
}

/** One room for each use, so that a slow download delays no checkpoint, and no restore. */
export const MANIFEST_ROOMS = {
  saving: new ManifestRoom(),
  restoring: new ManifestRoom(),
  downloading: new ManifestRoom(),
} as const

export type Handling = {
  readonly room: ManifestRoom
  readonly owner: string
  readonly signal: AbortSignal
  /** How long a large manifest may wait for the room. */
  readonly waitMs: number
}

/** A manifest while it is in memory. It takes the room as soon as it turns out to be large. */
export class HandledManifest {
  readonly #handling: Handling
  #leave: (() => void) | undefined

  constructor(handling: Handling) {
    this.#handling = handling
  }

  /** Called before so many bytes of a manifest are kept. Throws `ManifestRoomTaken` if there is no room for them in time. */
  async need(bytes: number): Promise<void> {
    if (bytes <= SMALL_MANIFEST_BYTES || this.#leave) return
    const { room, owner, signal, waitMs } = this.#handling
    this.#leave = await room.enter(owner, withTimeout(waitMs, signal)).catch(() => {
      signal.throwIfAborted()
      throw new ManifestRoomTaken()
    })
  }

  async collect(source: AsyncIterable<Uint8Array>): Promise<Buffer> {
    const pieces: Uint8Array[] = []
    let bytes = 0
    for await (const piece of source) {
      bytes += piece.length
      await this.need(bytes)
      pieces.push(piece)
    }
    return Buffer.concat(pieces)
  }

  /** The manifest is no longer in memory. */
  done(): void {
    this.#leave?.()
  }
}
