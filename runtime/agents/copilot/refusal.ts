import { randomUUID } from 'node:crypto'
import * as z from 'zod'
import type { HostEvent } from '../../../contracts/events.ts'

/** As much of a refusal is shown: it becomes an event of the run. */
const MAX_REFUSAL = 65_536

const TYPE = 'model.message'

/**
 * What the runtime says about each message of the model. The SDK has no type for it, and its own `assistant.message`
 * leaves out the refusal; a test fails if another version says it in another way.
 */
const ModelMessage = z.object({
  data: z.object({ message: z.object({ role: z.literal('assistant'), refusal: z.string().min(1) }) }),
})

/** The text with which the model refused; undefined where it did not. */
export function refusalOf(event: { readonly type: string }): string | undefined {
  if (event.type !== TYPE) return undefined
  const parsed = ModelMessage.safeParse(event)
  return parsed.success ? parsed.data.data.message.refusal.slice(0, MAX_REFUSAL).toWellFormed() : undefined
}

/** A message of its own: the text beside a refusal, if there is any, is another one. */
export const refusalEvent = (text: string): HostEvent => ({
  type: 'agent.message',
  data: { messageId: randomUUID(), text, refusal: true },
})
