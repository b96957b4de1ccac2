import type { RunEnvelope } from '../../../contracts/events.ts'
import type { RunRow } from '../../store/store.ts'

/** An event of a committed transaction, with the run as the transaction has read it. */
export type TracedEvent = {
  readonly run: Pick<RunRow, 'id' | 'agent' | 'traceparent'>
  readonly envelope: RunEnvelope
}

export type TracedRequest = {
  readonly method: string
  /** The pattern of the route. */
  readonly route: string
  /** The trace of the client, as W3C Trace Context has it. An invalid value begins a new trace. */
  readonly traceparent: string | undefined
  readonly tracestate: string | undefined
}

export interface RequestSpan {
  /** The parent of everything that the request starts. */
  readonly traceparent: string
  end(status: number): void
}

/** Traces requests and runs. No method throws or waits for the exporter. */
export interface Tracing {
  startRequest(request: TracedRequest): RequestSpan
  note(event: TracedEvent): void
  /** Exports the remaining spans. Gives up after a few seconds. */
  close(): Promise<void>
}

/** Traces are on if an OTLP endpoint is set, with the standard variables. */
export function isTracingOn(env: Readonly<Record<string, string | undefined>>): boolean {
  if (env['OTEL_SDK_DISABLED']?.toLowerCase() === 'true') return false
  if (env['OTEL_TRACES_EXPORTER'] === 'none') return false
  return Boolean(env['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT'] || env['OTEL_EXPORTER_OTLP_ENDPOINT'])
}
