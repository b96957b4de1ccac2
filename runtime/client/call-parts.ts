import type { z } from 'zod'
import type { Transport, WireRequest } from './transport.ts'

export interface CallOptions {
  readonly signal?: AbortSignal
  /** Repeated calls with the same key have one effect. By default each call has its own key. */
  readonly idempotencyKey?: string
}

export type PageQuery = { readonly limit?: number; readonly after?: string }
/** What the groups of calls have in common. */
export type Parts = {
  transport: Transport
  call: <T extends z.ZodType>(answer: T, request: WireRequest) => Promise<z.output<T>>
  command: (request: WireRequest) => Promise<void>
}
