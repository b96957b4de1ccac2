import { SandboxError } from '../../../kit/errors.ts'

const MAX_HEAD_BYTES = 64
const HEAD = /^([a-z][a-z-]{0,19}) (\d{1,10})$/

/** Reads parts that each begin with a line `NAME SIZE`. `maxBytes` has the limit of each name; other parts are refused. */
export async function readParts(
  pieces: AsyncIterable<Uint8Array>,
  maxBytes: Readonly<Record<string, number>>,
): Promise<ReadonlyMap<string, Buffer>> {
  const reader = new PartReader(maxBytes)
  for await (const piece of pieces) reader.push(Buffer.from(piece))
  return reader.end()
}

class PartReader {
  readonly #maxBytes: Readonly<Record<string, number>>
  readonly #parts = new Map<string, Buffer>()
  #head = ''
  #open: { readonly name: string; readonly pieces: Buffer[]; left: number } | undefined

  constructor(maxBytes: Readonly<Record<string, number>>) {
    this.#maxBytes = maxBytes
  }

  push(piece: Buffer): void {
    let rest = piece
    while (rest.length > 0) rest = this.#open ? this.#takeContent(rest) : this.#takeHead(rest)
  }

  end(): ReadonlyMap<string, Buffer> {
    if (this.#open || this.#head !== '') throw malformed('it ends in the middle of a part')
    return this.#parts
  }

  #takeHead(piece: Buffer): Buffer {
    const end = piece.indexOf(10)
    this.#head += piece.subarray(0, end < 0 ? piece.length : end).toString('latin1')
    if (this.#head.length > MAX_HEAD_BYTES) throw malformed('a part has no name')
    if (end < 0) return piece.subarray(piece.length)
    const [, name = '', size] = HEAD.exec(this.#head) ?? []
    this.#head = ''
    const max = this.#maxBytes[name]
    if (max === undefined || this.#parts.has(name)) throw malformed('it has an unknown part')
    if (Number(size) > max) throw malformed(`the part ${name} has more than ${max} bytes`)
    this.#open = { name, pieces: [], left: Number(size) }
    this.#closeIfWhole()
    return piece.subarray(end + 1)
  }

  #takeContent(piece: Buffer): Buffer {
    if (!this.#open) return piece
    const taken = piece.subarray(0, this.#open.left)
    this.#open.pieces.push(taken)
    this.#open.left -= taken.length
    this.#closeIfWhole()
    return piece.subarray(taken.length)
  }

  #closeIfWhole(): void {
    if (this.#open?.left !== 0) return
    this.#parts.set(this.#open.name, Buffer.concat(this.#open.pieces))
    this.#open = undefined
  }
}

const malformed = (why: string) =>
  new SandboxError('workspace_invalid', `the report of the sandbox cannot be read: ${why}`)
