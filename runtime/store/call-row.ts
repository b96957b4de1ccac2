import type * as z from 'zod'
import type { CallStates, Json, StoredDecision } from './columns.ts'

/**
 * One call of the agent, from its announcement to its end, so that it is never released twice; or a write through the
 * file API, until its outcome is recorded.
 */
export interface CallRow {
  readonly runId: string
  readonly callId: string
  readonly tool: string
  readonly state: z.infer<typeof CallStates>
  readonly decision?: StoredDecision
  /** The requester, if it is not the run's agent. */
  readonly actor?: string
  /** When the audit intent was written. */
  readonly openedAt: string
  /** The redacted arguments of the agent's call, until the call has ended. */
  readonly request?: Json
  /** Replaces `request` when the call has ended. */
  readonly summary?: CallSummary
  /** The last event of the run that announced or ended the call. 0 for a call that has no such event. */
  readonly sequence: number
}

/** The beginning of the request and of the result of a call, for people and for the next sandbox. */
export interface CallSummary {
  readonly request: string
  /** Absent if no result came. */
  readonly result?: string
}

export type NewCall = Omit<CallRow, 'sequence' | 'summary' | 'request'> & {
  readonly sequence?: number
  readonly request?: unknown
}
export type CallChange = Partial<Pick<CallRow, 'state' | 'decision' | 'summary' | 'sequence'>>

/** Calls with an event after `after`. */
export type ReleasedCalls = { readonly after: number; readonly limit: number }
