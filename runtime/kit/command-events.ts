import type { RunEnvelope, RunEvent } from '../../contracts/events.ts'

/** Yields the events of one command from a run's events, until the command has exited or the run has ended. */
export async function* commandEvents(
  events: AsyncIterable<RunEnvelope>,
  commandId: string,
): AsyncGenerator<RunEnvelope> {
  for await (const envelope of events) {
    const { type } = envelope.event
    const isOurs = concerns(envelope.event, commandId)
    if (isOurs || type === 'done') yield envelope
    if (type === 'done' || (isOurs && type === 'command.exited')) return
  }
}

const concerns = ({ data }: RunEvent, id: string): boolean =>
  ('commandId' in data && data.commandId === id) || ('callId' in data && data.callId === id)
