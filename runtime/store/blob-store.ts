/**
 * Where the bytes of contents are: files next to the embedded store, or a table of chunks in PostgreSQL. The rows of
 * `contents` say which ids exist and whether they are complete.
 */
export interface BlobStore {
  /** Stores bytes durably under an id that was never used before. */
  write(id: string, source: AsyncIterable<Uint8Array>): Promise<void>
  /** Yields the bytes from `start` on, at most `length` of them. `again` does every query. */
  read(id: string, range: ByteRange, again: Again): AsyncIterable<Uint8Array>
  /** Does nothing if the id does not exist. */
  delete(id: string): Promise<void>
}

/**
 * Does one query of a read that takes several. A caller that can wait repeats it while it rejects with `unavailable`: a read
 * that has begun cannot be repeated as a whole.
 */
export type Again = <T>(query: () => Promise<T>) => Promise<T>

export const once: Again = (query) => query()

export interface ByteRange {
  readonly start: number
  readonly length: number
}

export interface StoredBlob {
  readonly sha256: string
  readonly bytes: number
  readonly chunks: AsyncIterable<Uint8Array>
}
