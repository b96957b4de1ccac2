import type { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import type { OutputStream } from '../../../contracts/exec.ts'
import type { ExecIo } from '../../../contracts/toolbox.ts'

export interface Drained {
  bytes: number
  truncated: boolean
}

/** The destination of one output stream. */
export interface Drain {
  readonly stream: OutputStream
  readonly maxBytes: number
  readonly onChunk: ExecIo['onChunk']
}

/**
 * Forwards a stream up to the limit, then only counts bytes, so that a full pipe never blocks the command.
 * While `onChunk` is pending nothing is read, so a slow reader slows the command down.
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

/** Longest time without output, after the command ended, before a stream is closed. */
const IDLE_MS = 1_000

/**
 * Closes streams that an unreachable process keeps open after the command ended. Data that was already written
 * is still read, however slowly: a stream counts as idle only if it has no buffered data and receives none.
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
