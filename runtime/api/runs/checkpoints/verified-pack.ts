import { createHash } from 'node:crypto'
import { SandboxError } from '../../../kit/errors.ts'
import type { Wanted } from './plan-packs.ts'

/**
 * Passes on a pack from a sandbox. Throws `conflict` if a content does not have the size and the digest that the manifest
 * states, for example because the file has changed since, and if more bytes follow.
 */
export async function* verifiedPack(
  source: AsyncIterable<Uint8Array>,
  wanted: readonly Wanted[],
): AsyncGenerator<Uint8Array> {
  const check = new PackCheck(wanted)
  for await (const piece of source) {
    for (let rest = piece; rest.length > 0; ) rest = check.take(rest)
    yield piece
  }
  if (!check.isComplete) throw changed()
}

class PackCheck {
  readonly #wanted: readonly Wanted[]
  #index = 0
  #bytes = 0
  #hash = createHash('sha256')

  constructor(wanted: readonly Wanted[]) {
    this.#wanted = wanted
  }

  get isComplete(): boolean {
    return this.#index === this.#wanted.length
  }

  /** Takes the part that belongs to the current content, and returns the rest. */
  take(piece: Uint8Array): Uint8Array {
    const { sha256, size } = this.#wanted[this.#index] ?? tooLong()
    const part = piece.subarray(0, size - this.#bytes)
    this.#hash.update(part)
    this.#bytes += part.length
    if (this.#bytes === size) {
      if (this.#hash.digest('hex') !== sha256) throw changed()
      this.#hash = createHash('sha256')
      this.#bytes = 0
      this.#index += 1
    }
    return piece.subarray(part.length)
  }
}

const changed = () =>
  new SandboxError('conflict', 'a file of the workspace changed while the checkpoint was made')

function tooLong(): never {
  throw new SandboxError('conflict', 'the sandbox sent more than the contents that were asked for')
}
