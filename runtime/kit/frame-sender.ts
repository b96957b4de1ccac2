import type { Writable } from 'node:stream'
import { encodeFrame } from './frames.ts'

/** Sends frames in the order of the calls. Resolves when the stream accepts more data. */
export type SendFrame<Header> = (header: Header, payload?: Uint8Array) => Promise<void>

/** After the stream has closed, frames are dropped without an error; the reader of the stream reports its end. */
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

/** Also resolves on `close`: a stream that breaks while it is full never emits `drain`. */
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
