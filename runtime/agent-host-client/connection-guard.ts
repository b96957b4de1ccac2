/** A TCP connection to a pod, before anything else has travelled on it. */
export interface NewConnection {
  readonly remoteAddress: string
  readonly remotePort: number
  /** `GET path` on this very connection, without any credential. The answer is bounded in bytes and in time. */
  get(path: string): Promise<{ readonly status: number; readonly body: string }>
}

/** Decides whether what answers on an address is the pod that was claimed. */
export interface ConnectionGuard {
  /**
   * Called on every new TCP connection before any other byte of ours. Where it rejects, the connection is closed
   * and whatever would have used it fails with the guard's own error.
   */
  verify(connection: NewConnection): Promise<void>
}
