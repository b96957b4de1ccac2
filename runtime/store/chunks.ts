/** Cuts a byte stream into pieces of exactly `size` bytes (the last may be shorter), holding one at a time. */
export async function* cutInto(size: number, source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let buffer = new Uint8Array(size)
  let filled = 0
  for await (const piece of source) {
    for (let offset = 0; offset < piece.length; ) {
      const part = piece.subarray(offset, offset + size - filled)
      buffer.set(part, filled)
      filled += part.length
      offset += part.length
      if (filled < size) continue
      yield buffer
      buffer = new Uint8Array(size)
      filled = 0
    }
  }
  if (filled > 0) yield buffer.subarray(0, filled)
}
