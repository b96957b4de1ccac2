import { SandboxError } from '../../../kit/errors.ts'
import type { StoredCheckpoint } from '../../../store/checkpoint.ts'
import type { Store } from '../../../store/store.ts'
import { assembleArchive } from '../../../workspace/snapshot/assemble-archive.ts'
import { PACK_BYTES } from './plan-packs.ts'
import { decodeManifest, type Location } from './stored-manifest.ts'

/** Packs that are kept in memory while an archive is assembled. Files of one folder are mostly in one pack. */
const PACKS_IN_MEMORY = 2

type Contents = Pick<Store, 'readContent'>

/** The workspace of a checkpoint as a tar archive. Every content is verified on the way. */
export async function openStoredWorkspace(
  store: Contents,
  { owner, workspace }: Pick<StoredCheckpoint, 'owner' | 'workspace'>,
): Promise<AsyncIterable<Uint8Array> | undefined> {
  if (!workspace) return undefined
  const stored = await store.readContent(owner, workspace.sha256)
  if (workspace.kind === 'archive') return stored
  const { entries, locations } = await decodeManifest(Buffer.concat(await Array.fromAsync(stored)))
  const read = contentReader(store, owner)
  return assembleArchive(entries(), ({ sha256, size }) => {
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
}

/** Reads parts of contents. A pack is read once for many small files. */
function contentReader(store: Contents, owner: string) {
  const packs = new Map<string, Promise<Uint8Array>>()
  const packOf = (content: string): Promise<Uint8Array> => {
    const pack =
      packs.get(content) ??
      store.readContent(owner, content).then(async (pieces) => Buffer.concat(await Array.fromAsync(pieces)))
    packs.delete(content)
    packs.set(content, pack)
    for (const oldest of packs.keys()) if (packs.size > PACKS_IN_MEMORY) packs.delete(oldest)
    return pack
  }
  return async function* read({ content, offset, size }: Location): AsyncGenerator<Uint8Array> {
    if (size > PACK_BYTES) yield* await store.readContent(owner, content, { start: offset, length: size })
    else yield (await packOf(content)).subarray(offset, offset + size)
  }
}

async function* nothing(): AsyncGenerator<Uint8Array> {}
