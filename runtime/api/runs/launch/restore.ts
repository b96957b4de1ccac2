import type { RunRow, Store } from '../../../store/store.ts'
import { type Opening, openStoredWorkspace } from '../checkpoints/open-workspace.ts'

type Stored = Pick<Store, 'readBlob' | 'readCheckpoint' | 'readContent'>

/**
 * The workspace of a run's checkpoint as a tar archive, or the uploaded archive if the run has no checkpoint yet. Undefined
 * if the run has neither.
 */
export async function openWorkspaceArchive(
  store: Stored,
  { id }: Pick<RunRow, 'id'>,
  opening: Opening,
): Promise<AsyncIterable<Uint8Array> | undefined> {
  const checkpoint = await store.readCheckpoint(id)
  if (checkpoint?.workspace) return openStoredWorkspace(store, checkpoint, opening)
  // The upload, also of a run that began with only the session of another run, or the checkpoint of an earlier release.
  return (await store.readBlob(id, 'workspace'))?.chunks
}

/** The session archive of a run's checkpoint. Undefined if the run has no checkpoint or no agent. */
export async function readSessionArchive(
  store: Stored,
  { id, checkpoint, kind }: Pick<RunRow, 'id' | 'checkpoint' | 'kind'>,
): Promise<Uint8Array | undefined> {
  if (checkpoint === undefined || kind !== 'agent') return undefined
  const chunks = await sessionChunks(store, id)
  return chunks && Buffer.concat(await Array.fromAsync(chunks))
}

async function sessionChunks(store: Stored, id: string): Promise<AsyncIterable<Uint8Array> | undefined> {
  const stored = await store.readCheckpoint(id)
  if (stored)
    return stored.session === undefined ? undefined : store.readContent(stored.owner, stored.session)
  return (await store.readBlob(id, 'session'))?.chunks
}
