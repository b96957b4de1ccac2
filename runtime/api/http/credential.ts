import type { Caller } from '../runs/service.ts'

/** What a request proved with its bearer token. */
export interface Credential {
  readonly caller: Caller
  /** Absent for signed-in people. */
  readonly apiKeyId?: string
  /** Issuer of the access token of a signed-in person. */
  readonly issuer?: string
  /** Milliseconds since 1970. Streams that are open then end. Absent for a key that does not expire. */
  readonly expiresAt?: number
}
