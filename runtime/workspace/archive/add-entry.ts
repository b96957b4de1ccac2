import { type Header, type Pack, pack } from 'tar-stream'
import { FileFault, faultFrom } from '../file-fault.ts'
import { untilDrained } from './until-drained.ts'

/** Adds one entry to an archive, and waits until the archive has taken it. */
export async function addEntry(
  archive: Pack,
  headers: Partial<Header> & Pick<Header, 'name'>,
  content?: AsyncIterable<Uint8Array>,
): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const entry = archive.entry(headers, (error) =>
    error ? reject(faultFrom(error, 'io_error', `${headers.name}: ${error.message}`)) : resolve(),
  )
  // The callback above receives the same error.
  entry.on('error', () => undefined)
  promise.catch(() => undefined)
  if (content) {
    for await (const piece of content) {
      if (!entry.write(piece)) await untilDrained(entry)
      if (archive.destroyed) throw new FileFault('io_error', 'the archive was closed')
    }
  }
  if (content) entry.end(null)
  await promise
}

/** An archive as a stream, while `fill` adds its entries. An error of `fill` is the error of the stream. */
export async function* filledArchive(fill: (archive: Pack) => Promise<void>): AsyncGenerator<Uint8Array> {
  const archive = pack()
  const filled = fill(archive).then(
    () => archive.finalize(),
    (error: unknown) => archive.destroy(error instanceof Error ? error : new Error(String(error))),
  )
  try {
    for await (const chunk of archive) yield chunk as Uint8Array
  } finally {
    archive.destroy(null)
    await filled
  }
}
