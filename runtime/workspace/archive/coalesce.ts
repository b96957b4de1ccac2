/** Regroups a stream into pieces of exactly `bytes` bytes; only the last may be smaller. */
export async function* coalesce(
  source: AsyncIterable<Uint8Array>,
  bytes: number,
): AsyncGenerator<Uint8Array> {
  let piece = Buffer.allocUnsafe(bytes)
  let filled = 0
  for await (const chunk of source) {
    for (let rest = chunk; rest.length > 0; ) {
      const part = rest.subarray(0, bytes - filled)
      piece.set(part, filled)
      filled += part.length
      rest = rest.subarray(part.length)
      if (filled < bytes) continue
      yield piece
      piece = Buffer.allocUnsafe(bytes)
      filled = 0
    }
  }
  if (filled > 0) yield piece.subarray(0, filled)
}
