export interface ErasureTransaction {
  /**
   * Deletes everything of an ended run but its record in the deployment's chain. Its events must be deleted before
   * (`Store.deleteEvents`). Returns the number of its audit records. `conflict` if a sandbox of it may still exist.
   */
  eraseRun(id: string): Promise<number>
}

export interface ErasureStore {
  /** Deletes events of a run, at most `limit`, and returns how many. For runs that are erased. */
  deleteEvents(runId: string, limit: number): Promise<number>
  /**
   * Deletes what belongs to an owner and to no run: keys, credentials, trusted folders and idempotency keys. Contents that no run
   * uses are deleted with the next sweep. Returns the number of keys.
   */
  eraseOwner(owner: string): Promise<number>
}
