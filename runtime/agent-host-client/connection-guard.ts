/** A TCP connection to a pod, before any data was sent on it. */
export interface NewConnection {
  readonly remoteAddress: string
  readonly remotePort: number
  /** Sends `GET path` on this connection without a credential. The response is limited in size and time. */
  get(path: string): Promise<{ readonly status: number; readonly body: string }>
}

/** Decides whether the server at an address is the claimed pod. */
export interface ConnectionGuard {
  /**
   * Called on every new TCP connection before the client sends anything else. If it rejects, the connection is closed
   * and the request that needed the connection fails with the guard's error.
   */
  verify(connection: NewConnection): Promise<void>
}
