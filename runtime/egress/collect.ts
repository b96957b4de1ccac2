import type { Socket } from 'node:net'

export interface Collecting<T> {
  /** Bytes that were read before. */
  readonly before: Buffer
  /** Returns a result, or undefined if it needs more bytes. Bounds the bytes itself. */
  readonly read: (bytes: Buffer) => T | undefined
  readonly ms: number
  /**
   * Whether the bytes stay in the socket for its next reader. A client may have ended its side, and a socket that was read
   * to its end takes no bytes back.
   */
  readonly leaves?: (result: T) => boolean
}

/**
 * Collects the first bytes of a socket until `read` has a result, and pauses the socket. Undefined if the socket ends,
 * fails or takes too long.
 */
export function collect<T>(
  socket: Socket,
  { before, read, ms, leaves }: Collecting<T>,
): Promise<{ readonly result: T; readonly bytes: Buffer } | undefined> {
  const { promise, resolve } = Promise.withResolvers<{ result: T; bytes: Buffer } | undefined>()
  let bytes = before
  let isDone = false
  /** At once: a packet that arrived together with the last one stays in the socket for the next reader. */
  const finish = (found?: { result: T; bytes: Buffer }) => {
    if (isDone) return
    isDone = true
    clearTimeout(timer)
    socket.off('data', onData)
    socket.pause()
    if (found && bytes.length > 0 && leaves?.(found.result)) socket.unshift(bytes)
    for (const event of ENDS) socket.off(event, give)
    resolve(found)
  }
  const give = () => finish()
  const look = () => {
    const result = read(bytes)
    if (result !== undefined) finish({ result, bytes })
  }
  const onData = (chunk: Buffer) => {
    bytes = Buffer.concat([bytes, chunk])
    look()
  }
  const timer = setTimeout(give, ms)
  for (const event of ENDS) socket.on(event, give)
  look()
  if (!socket.readable) give()
  // An earlier collection has paused the socket.
  if (!isDone) socket.on('data', onData).resume()
  return promise
}

const ENDS = ['end', 'error', 'close'] as const
