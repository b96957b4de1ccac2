import type { RunEnvelope, RunEvent, RunEventType } from '../../contracts/events.ts'

export type EnvelopeOf<T extends RunEventType> = RunEnvelope & {
  readonly event: Extract<RunEvent, { type: T }>
}

export interface EventReads {
  /** Events after `after`, oldest first. */
  readEvents(runId: string, after: number, limit: number): Promise<RunEnvelope[]>
  /** The first events of one type, for types that only the API emits. */
  readEventsOf<T extends RunEventType>(runId: string, type: T, limit: number): Promise<EnvelopeOf<T>[]>
}
