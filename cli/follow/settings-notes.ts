import type { Client } from '../../runtime/client/client.ts'
import type { Terminal } from '../terminal/terminal.ts'
import { createEventView } from '../view/event-view.ts'

/** The settings event is among the first events of a run. */
const FIRST_EVENTS = 5

/** Prints a run's settings events, for commands that do not follow the run. */
export async function noteSettings(
  { note, notePaint: paint, width }: Terminal,
  client: Client,
  { runId, suffix }: { runId: string; suffix: string },
): Promise<void> {
  const { items } = await client.readEvents(runId, { limit: FIRST_EVENTS })
  const view = createEventView({ paint, width }, { suffix })
  note(items.filter(({ event }) => event.type.startsWith('policy.')).flatMap(view))
}
