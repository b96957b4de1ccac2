import type { Client } from '../../runtime/client/client.ts'
import type { Terminal } from '../terminal/terminal.ts'
import { createEventView } from '../view/event-view.ts'

/** A run says it before anything else but its task. */
const FIRST_EVENTS = 5

/** Says what a run says about its settings, where this command does not follow it. */
export async function noteSettings(
  { note, notePaint: paint, width }: Terminal,
  client: Client,
  { runId, suffix }: { runId: string; suffix: string },
): Promise<void> {
  const { items } = await client.readEvents(runId, { limit: FIRST_EVENTS })
  const view = createEventView({ paint, width }, { suffix })
  note(items.filter(({ event }) => event.type.startsWith('policy.')).flatMap(view))
}
