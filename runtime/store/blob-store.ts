/**
 * Where the bytes of contents are: files next to the embedded store, or a table of chunks in PostgreSQL. The rows of
 * `contents` say which ids exist and whether they are complete.
 */
export interface BlobStore {
  /** Stores bytes durably under an id that was never used before. */
  write(id: string, source: AsyncIterable<Uint8Array>): Promise<void>
  /** Yields the bytes from `start` on, at most `length` of them. */
  read(id: string, range: ByteRange): AsyncIterable<Uint8Array>
  /** Does nothing if the id does not exist. */
  delete(id: string): Promise<void>
}

export interface ByteRange {
  readonly start: number
  readonly length: number
}
