import type { Caller } from '../runs/service.ts'

/** What a request proved with its bearer token. */
export interface Credential {
  readonly caller: Caller
  /** Requests and streams with the same id are counted together. */
  readonly keyId: string
  /** Absent for signed-in people. */
  readonly apiKeyId?: string
  /** Milliseconds since 1970. Streams that are open then end. API keys are looked up instead. */
  readonly expiresAt?: number
}
