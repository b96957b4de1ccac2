import type * as z from 'zod'
import type { Again, ByteRange } from './blob-store.ts'
import type { Origin, WorkspaceForms } from './columns.ts'

/** The position of a saved session and workspace. */
export interface Checkpoint {
  /** The last event of the run that the checkpoint includes. */
  readonly sequence: number
  /** The last turn that had ended, by its ordinal; 0 if none had. Checkpoints of an earlier release do not have it. */
  readonly afterTurn?: number
  /** The turn during which the session was saved. */
  readonly turnId?: string
  /** The calls that waited then. */
  readonly carriedCalls?: readonly string[]
  /** The calls that were open then, if their decisions were sent afterwards. Their effects are not saved. */
  readonly openCalls?: readonly string[]
  /** Digest of the destinations that the commands of the run could reach then. */
  readonly egressDigest?: string
}

/** The stored parts of a run's last checkpoint. Each is a content of the owner, named by its digest. */
export interface StoredCheckpoint {
  readonly owner: string
  /** The sandbox that was saved, and the last of its events that was committed before. */
  readonly generation: number
  readonly hostSequence: number
  readonly policyVersion: string
  readonly at: string
  readonly session?: string
  readonly workspace?: StoredWorkspace
  /** Everything that the checkpoint needs. It is kept as long as the checkpoint. */
  readonly contents: readonly string[]
}

export interface StoredWorkspace {
  readonly kind: z.infer<typeof WorkspaceForms>
  readonly sha256: string
  /** Digest of the manifest as the sandbox sent it. */
  readonly tree?: string
}

export interface WrittenContent {
  readonly sha256: string
  readonly bytes: number
  /** Whether the owner had no such content yet. */
  readonly isNew: boolean
}

/** The part of the store that keeps checkpoints and their contents. */
export interface CheckpointStore {
  /**
   * Stores content under its digest, once per owner. Fails with `payload_too_large` beyond `maxBytes`. Content that no
   * checkpoint needs is deleted a day later.
   */
  writeContent(
    content: { readonly owner: string; readonly maxBytes: number },
    chunks: AsyncIterable<Uint8Array>,
  ): Promise<WrittenContent>
  /** Bytes of all stored contents, uploads and results of an owner. */
  storedBytes(owner: string): Promise<number>
  /**
   * The content, or a range of it; `not_found` if the owner has none. The digest of a whole content is verified. `again` does
   * each query of the iteration.
   */
  readContent(
    owner: string,
    sha256: string,
    given?: { readonly range?: ByteRange; readonly again?: Again },
  ): Promise<AsyncIterable<Uint8Array>>
  readCheckpoint(runId: string): Promise<StoredCheckpoint | undefined>
  /**
   * Deletes unused data, at most `limit` of each kind: contents a day after their last use, checkpoints and
   * uploads of runs that ended before `endedBefore`, and idempotency keys after a day. Returns how many were deleted.
   */
  sweep(given: { readonly endedBefore: string; readonly now: Date; readonly limit: number }): Promise<number>
}

/** The parts of a checkpoint. */
export type CheckpointPart = 'workspace' | 'session'

/** The part of a transaction that changes checkpoints. */
export interface CheckpointTransaction {
  /**
   * Puts a checkpoint in force, in place of the last one and of the uploaded archive. `conflict` if one of its contents is
   * not stored, or if the last one is of a later moment of the run.
   */
  commitCheckpoint(runId: string, checkpoint: StoredCheckpoint): Promise<void>
  /**
   * Gives a run parts of the checkpoint of another run of the same owner. The run does not depend on `from` afterwards, and
   * its next checkpoint is later. `conflict` if a part is missing.
   */
  copyCheckpoint(parts: readonly CheckpointPart[], runs: { from: string; to: string }): Promise<void>
}

/** The checkpoint of another run that a run began from. */
export type RunOrigin = Readonly<z.infer<typeof Origin>>
