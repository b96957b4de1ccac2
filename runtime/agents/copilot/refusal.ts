import { randomUUID } from 'node:crypto'
import * as z from 'zod'
import type { HostEvent } from '../../../contracts/events.ts'

/** Maximum length of a refusal, because it becomes an event. */
const MAX_REFUSAL = 65_536

const TYPE = 'model.message'

/**
 * The runtime's raw event for a message of the model. The SDK has no type for it, and its `assistant.message` leaves out
 * the refusal. A test fails if a new version changes the format.
 */
const ModelMessage = z.object({
  data: z.object({ message: z.object({ role: z.literal('assistant'), refusal: z.string().min(1) }) }),
})

/** The text of a refusal, or undefined if the model did not refuse. */
export function refusalOf(event: { readonly type: string }): string | undefined {
  if (event.type !== TYPE) return undefined
  const parsed = ModelMessage.safeParse(event)
  return parsed.success ? parsed.data.data.message.refusal.slice(0, MAX_REFUSAL).toWellFormed() : undefined
}

/** A separate message, because the answer may contain other text in addition to the refusal. */
export const refusalEvent = (text: string): HostEvent => ({
  type: 'agent.message',
  data: { messageId: randomUUID(), text, refusal: true },
})
