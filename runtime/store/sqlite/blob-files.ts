import { createReadStream } from 'node:fs'
import { mkdir, open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { BlobStore } from '../blob-store.ts'

const READ_BYTES = 1_048_576

/** One file per blob, in a folder that only this account can read. An id becomes a file name, so its form is checked. */
export function blobFiles(folder: string): BlobStore {
  const placeOf = (id: string) => {
    if (!/^[0-9a-f-]{36}$/.test(id)) throw new TypeError(`${id} is not the id of a blob`)
    const parent = join(folder, id.slice(0, 2))
    return { parent, file: join(parent, id) }
  }
  return {
    async write(id, source) {
      const { parent, file } = placeOf(id)
      await mkdir(parent, { recursive: true, mode: 0o700 })
      await using handle = await open(file, 'wx', 0o600)
      for await (const piece of source) await writeAll(handle, piece)
      await handle.sync()
      await syncFolder(parent)
    },
    async *read(id, { start, length }) {
      if (length === 0) return
      const range = { start, end: start + length - 1, highWaterMark: READ_BYTES }
      for await (const piece of createReadStream(placeOf(id).file, range)) yield piece as Uint8Array
    },
    delete: (id) => rm(placeOf(id).file, { force: true }),
  }
}

async function writeAll(handle: Awaited<ReturnType<typeof open>>, piece: Uint8Array): Promise<void> {
  for (let done = 0; done < piece.length; ) {
    done += (await handle.write(piece, done)).bytesWritten
  }
}

/** The name of a new file is durable only after its folder is. */
async function syncFolder(path: string): Promise<void> {
  await using folder = await open(path, 'r')
  await folder.sync()
}
