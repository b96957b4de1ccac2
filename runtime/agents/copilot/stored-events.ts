import * as z from 'zod'
import { SandboxError } from '../../kit/errors.ts'

/** The file in which the runtime keeps a session: one JSON record per line. */
export const EVENTS = 'events.jsonl'

const Record = z.looseObject({ type: z.string() })

/**
 * The records of a session up to the first damaged one, and how many characters were cut off. The runtime opens a session
 * that ends after any record, but none with a record that it cannot read. Throws `configure_failed` if no message is left.
 */
export function wholeRecords(events: string): { readonly events: string; readonly dropped: number } {
  let end = 0
  let hasMessage = false
  while (end < events.length) {
    const newline = events.indexOf('\n', end)
    const next = newline === -1 ? events.length : newline + 1
    const type = typeOf(events.slice(end, next))
    if (type === undefined) break
    hasMessage ||= type === 'user.message'
    end = next
  }
  if (!hasMessage) throw unusable()
  const whole = events.slice(0, end)
  // The runtime appends to the file, so the last record must end with a line feed.
  return { events: whole.endsWith('\n') ? whole : `${whole}\n`, dropped: events.length - end }
}

function typeOf(line: string): string | undefined {
  try {
    return Record.safeParse(JSON.parse(line)).data?.type
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}

const unusable = () =>
  new SandboxError(
    'configure_failed',
    `The session cannot be restored: its ${EVENTS} is damaged before the first message. Start a new run from the workspace of this one.`,
  )
