import type { SessionEvent } from '@github/copilot-sdk'
import type { HostEvent } from '../../../contracts/events.ts'

/** Converts an event of the agent runtime. Returns undefined for events that the host does not report. */
export function toHostEvent(event: SessionEvent): HostEvent | undefined {
  switch (event.type) {
    case 'assistant.message_delta': {
      const { messageId, deltaContent: text } = event.data
      return text === '' ? undefined : { type: 'agent.message.delta', data: { messageId, text } }
    }
    case 'assistant.message': {
      const { messageId, content: text } = event.data
      return text === '' ? undefined : { type: 'agent.message', data: { messageId, text } }
    }
    case 'assistant.usage': {
      const { model, inputTokens, outputTokens } = event.data
      return {
        type: 'agent.turn.usage',
        data: {
          ...(model === undefined ? {} : { model }),
          inputTokens: countOf(inputTokens),
          outputTokens: countOf(outputTokens),
        },
      }
    }
    default:
      return undefined
  }
}

/** A server may report any number; the event needs a natural one. */
const countOf = (tokens: number | undefined) => Math.max(0, Math.trunc(tokens ?? 0))
