import type { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import type { OutputStream } from '../../../contracts/exec.ts'
import type { ExecIo } from '../../../contracts/toolbox.ts'

export interface Drained {
  bytes: number
  truncated: boolean
}

/** Where the bytes of one stream go. */
export interface Drain {
  readonly stream: OutputStream
  readonly maxBytes: number
  readonly onChunk: ExecIo['onChunk']
}

/**
 * Hands on what a stream says until the cap, then only counts, so that the command is never stopped by a full
 * pipe. A slow reader slows the command: nothing is read while `onChunk` works.
 */
export async function drain(readable: Readable, to: Drain): Promise<Drained> {
  const drained = { bytes: 0, truncated: false }
  for await (const chunk of readable as AsyncIterable<Buffer>) {
    const room = to.maxBytes - drained.bytes
    drained.bytes += chunk.length
    if (chunk.length > room) drained.truncated = true
    if (room > 0) await to.onChunk(to.stream, chunk.subarray(0, room))
  }
  return drained
}

/** How long a stream may stay silent after its command ended before it is given up. */
const IDLE_MS = 1_000

/**
 * Closes streams that something unreachable keeps open after the command's end. What was written before is still
 * read, however slowly: only a stream that neither has nor gets bytes counts as idle.
 */
export async function closeWhenIdle(outputs: readonly Readable[], done: Promise<unknown>): Promise<void> {
  let isDone = false
  done.then(
    () => (isDone = true),
    () => (isDone = true),
  )
  for (let seen = -1; !isDone; ) {
    await sleep(IDLE_MS)
    const read = outputs.reduce((sum, output) => sum + (output as Socket).bytesRead, 0)
    const isEmpty = outputs.every((output) => output.readableLength === 0)
    if (read === seen && isEmpty) for (const output of outputs) output.push(null)
    seen = read
  }
}
