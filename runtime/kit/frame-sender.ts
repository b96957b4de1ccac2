import type { Writable } from 'node:stream'
import { encodeFrame } from './frames.ts'

/** Sends frames over one stream, in the order of the calls. Resolves when the stream takes more. */
export type SendFrame<Header> = (header: Header, payload?: Uint8Array) => Promise<void>

/** A stream that is gone takes nothing and refuses nothing: its reader tells its end. */
export function createFrameSender<Header extends { readonly type: string }>(
  stream: Writable,
): SendFrame<Header> {
  let drained: Promise<void> | undefined
  return async (header, payload) => {
    const frame = encodeFrame(header, payload)
    if (!stream.writable) return
    if (stream.write(frame)) return
    drained ??= untilDrained(stream).finally(() => {
      drained = undefined
    })
    await drained
  }
}

/** A stream that breaks while it is full never drains; its close ends the wait. */
function untilDrained(stream: Writable): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      stream.off('drain', done)
      stream.off('close', done)
      resolve()
    }
    stream.on('drain', done)
    stream.on('close', done)
  })
}
