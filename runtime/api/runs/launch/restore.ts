import type { RunRow, Store } from '../../../store/store.ts'

type Blobs = Pick<Store, 'readBlob'>

/**
 * The workspace of a run's checkpoint as a tar archive, or the uploaded archive if the run has no checkpoint yet. Undefined
 * if the run has neither.
 */
export async function openWorkspaceArchive(
  store: Blobs,
  { id }: Pick<RunRow, 'id'>,
): Promise<AsyncIterable<Uint8Array> | undefined> {
  return (await store.readBlob(id, 'workspace'))?.chunks
}

/** The session archive of a run's checkpoint. Undefined if the run has no checkpoint or no agent. */
export async function readSessionArchive(
  store: Blobs,
  { id, checkpoint, kind }: Pick<RunRow, 'id' | 'checkpoint' | 'kind'>,
): Promise<Uint8Array | undefined> {
  if (checkpoint === undefined || kind !== 'agent') return undefined
  const blob = await store.readBlob(id, 'session')
  return blob && Buffer.concat(await Array.fromAsync(blob.chunks))
}
