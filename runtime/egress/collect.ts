import type { Socket } from 'node:net'

export interface Collecting<T> {
  /** Bytes that were read before. */
  readonly before: Buffer
  /** Returns a result, or undefined if it needs more bytes. Bounds the bytes itself. */
  readonly read: (bytes: Buffer) => T | undefined
  readonly ms: number
}

/**
 * Collects the first bytes of a socket until `read` has a result, and pauses the socket. Undefined if the socket ends,
 * fails or takes too long.
 */
export function collect<T>(
  socket: Socket,
  { before, read, ms }: Collecting<T>,
): Promise<{ readonly result: T; readonly bytes: Buffer } | undefined> {
  const { promise, resolve } = Promise.withResolvers<{ result: T; bytes: Buffer } | undefined>()
  let bytes = before
  const give = () => resolve(undefined)
  const look = () => {
    const result = read(bytes)
    if (result !== undefined) resolve({ result, bytes })
  }
  const onData = (chunk: Buffer) => {
    bytes = Buffer.concat([bytes, chunk])
    look()
  }
  const timer = setTimeout(give, ms)
  for (const event of ['end', 'error', 'close'] as const) socket.on(event, give)
  look()
  if (!socket.readable) give()
  // An earlier collection has paused the socket.
  else socket.on('data', onData).resume()
  return promise.finally(() => {
    clearTimeout(timer)
    socket.off('data', onData)
    socket.pause()
    for (const event of ['end', 'error', 'close'] as const) socket.off(event, give)
  })
}
