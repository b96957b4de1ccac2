import type { RunEnvelope, RunEvent } from '../../contracts/events.ts'

/** Everything that a run's events report about one tool call. */
export interface CallRecord {
  readonly tool: string
  readonly request: Readonly<Record<string, unknown>>
  readonly output: string
  /** Whether the call returned a successful result. */
  readonly succeeded: boolean
  /** Why the call was refused or failed. */
  readonly refusal?: string
  /** Set for a command that exited by itself. */
  readonly exitCode?: number
  readonly asked: boolean
  readonly approved: boolean
}

const callIdOf = (event: RunEvent): string | undefined => {
  const { callId }: { callId?: string | undefined } = 'callId' in event.data ? event.data : {}
  return callId
}

function refusalOf(events: readonly RunEvent[]): string | undefined {
  for (const { type, data } of events) {
    if (type === 'tool.denied') return data.reason
    if (type === 'tool.error') return `${data.message} (${data.code})`
    if (type === 'tool.result' && !data.outcome.ok) return `${data.outcome.message} (${data.outcome.code})`
  }
  return undefined
}

function exitCodeOf(events: readonly RunEvent[]): number | undefined {
  for (const { type, data } of events) {
    if (type === 'command.exited') return data.result.exitCode ?? undefined
    const fact = type === 'tool.result' && data.outcome.ok ? data.outcome.facts['exitCode'] : undefined
    if (typeof fact === 'number') return fact
  }
  return undefined
}

function toRecord(call: Extract<RunEvent, { type: 'tool.call' }>, events: readonly RunEvent[]): CallRecord {
  const refusal = refusalOf(events)
  const exitCode = exitCodeOf(events)
  return {
    tool: call.data.tool,
    request: (call.data.request ?? {}) as Readonly<Record<string, unknown>>,
    output: events.map((event) => (event.type === 'command.output' ? event.data.chunk : '')).join(''),
    succeeded: events.some((event) => event.type === 'tool.result' && event.data.outcome.ok),
    asked: events.some(({ type }) => type === 'shell.approval_required' || type === 'tool.approval_required'),
    approved: events.some(({ type }) => type === 'shell.approved' || type === 'tool.approved'),
    ...(refusal === undefined ? {} : { refusal }),
    ...(exitCode === undefined ? {} : { exitCode }),
  }
}

/** The tool calls of a run in the agent's order. */
export function callRecords(envelopes: readonly RunEnvelope[]): CallRecord[] {
  const events = envelopes.map(({ event }) => event)
  return events
    .filter((event) => event.type === 'tool.call')
    .map((call) =>
      toRecord(
        call,
        events.filter((event) => callIdOf(event) === call.data.callId),
      ),
    )
}
