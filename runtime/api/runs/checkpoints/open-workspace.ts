import { SandboxError } from '../../../kit/errors.ts'
import type { StoredCheckpoint } from '../../../store/checkpoint.ts'
import type { Store } from '../../../store/store.ts'
import { assembleArchive } from '../../../workspace/snapshot/assemble-archive.ts'
import { HandledManifest, type Handling } from './manifest-room.ts'
import { decodeManifest, type Location } from './stored-manifest.ts'

/** Small files are read this many bytes at a time, because files of one folder are mostly next to each other in a pack. */
const WINDOW_BYTES = 1_048_576
/** Files that were changed at different times are in different packs. */
const WINDOWS = 4

type Contents = Pick<Store, 'readContent'>
export type Opening = Omit<Handling, 'owner'>

/** The workspace of a checkpoint as a tar archive. Every content is verified on the way. The signal ends it. */
export async function openStoredWorkspace(
  store: Contents,
  { owner, workspace }: Pick<StoredCheckpoint, 'owner' | 'workspace'>,
  opening: Opening,
): Promise<AsyncIterable<Uint8Array> | undefined> {
  if (!workspace) return undefined
  const stored = await store.readContent(owner, workspace.sha256)
  if (workspace.kind === 'archive') return stored
  const handled = new HandledManifest({ ...opening, owner })
  try {
    const { entries, locations } = await decodeManifest(await handled.collect(stored), handled)
    const read = contentReader(store, owner)
    const archive = assembleArchive(entries(), ({ sha256, size }) => {
      const location = locations.get(sha256)
      if (!location) return nothing()
      // The size decides how much is read into memory, and a sandbox wrote the manifest.
      if (location.size !== size)
        throw new SandboxError(
          'workspace_invalid',
          `the manifest of the checkpoint has two sizes for ${sha256}`,
        )
      return read(location)
    })
    return untilDone(archive, opening.signal, () => handled.done())
  } catch (error) {
    handled.done()
    throw error
  }
}

/** Calls `done` once the archive ends, fails, is left by its reader, or is aborted. A generator that never begins does none of it. */
function untilDone(
  archive: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
  done: () => void,
): AsyncIterable<Uint8Array> {
  signal.addEventListener('abort', done, { once: true })
  return {
    [Symbol.asyncIterator]() {
      const iterator = archive[Symbol.asyncIterator]()
      return {
        async next() {
          try {
            signal.throwIfAborted()
            const item = await iterator.next()
            if (item.done) done()
            return item
          } catch (error) {
            done()
            throw error
          }
        },
        async return() {
          done()
          await iterator.return?.()
          return { done: true, value: undefined }
        },
      }
    },
  }
}

/** Reads parts of contents. */
function contentReader(store: Contents, owner: string) {
  const windows = new Map<string, { readonly start: number; readonly bytes: Uint8Array }>()
  const windowAt = async ({ content, offset, size }: Location) => {
    const known = windows.get(content)
    const reaches = known && offset >= known.start && offset + size <= known.start + known.bytes.length
    const range = { start: offset, length: WINDOW_BYTES }
    const window = reaches
      ? known
      : {
          start: offset,
          bytes: Buffer.concat(await Array.fromAsync(await store.readContent(owner, content, { range }))),
        }
    windows.delete(content)
    windows.set(content, window)
    for (const oldest of windows.keys()) if (windows.size > WINDOWS) windows.delete(oldest)
    return window
  }
  return async function* read(location: Location): AsyncGenerator<Uint8Array> {
    const { content, offset, size } = location
    if (size > WINDOW_BYTES)
      yield* await store.readContent(owner, content, { range: { start: offset, length: size } })
    else {
      const { start, bytes } = await windowAt(location)
      yield bytes.subarray(offset - start, offset - start + size)
    }
  }
}

async function* nothing(): AsyncGenerator<Uint8Array> {}
