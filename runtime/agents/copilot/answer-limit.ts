import type { SessionEvent } from '@github/copilot-sdk'

/**
 * Maximum size of one model response in bytes, tool calls included. Real responses are smaller (a million tokens are
 * about 4 MB), and the agent runtime needs more than fifty times the size of a response as memory.
 */
const MAX_ANSWER_BYTES = 8_388_608

/** The turn fails after this many stopped responses, because a model that continues like this only costs money. */
const MAX_STOPPED = 3

/** Maximum length of a tool name in an event. */
const MAX_TOOL_NAME = 128

/**
 * A model may write anything as a tool name. The runtime sanitizes most names this way, but not the names in deltas.
 */
export const toolNameOf = (name: string): string =>
  name.slice(0, MAX_TOOL_NAME).replaceAll(/[^\w-]/g, '_') || 'unknown'

/** Message to the model after a stopped answer. */
export const ANSWER_STOPPED =
  `Your last answer was stopped because it was longer than ${MAX_ANSWER_BYTES} bytes. No call in it was carried out. ` +
  'Make smaller calls: write a large file in parts, or have a command write it.'

export const ANSWERS_TOO_LONG = `The model sent ${MAX_STOPPED} responses of more than ${MAX_ANSWER_BYTES} bytes each. Give it a smaller task, or check its server.`

/** What to do after an event. */
type LimitStep = 'stop' | 'ask_again' | 'give_up'

/** Measures the model responses of one turn while they arrive. */
export class AnswerLimit {
  #stopped = 0
  #isStopping = false
  #tool: string | undefined

  /** True from the event that stops an answer until the runtime is idle. */
  get isStopping(): boolean {
    return this.#isStopping
  }

  /** The tool of the call that the model was writing. Undefined if the answer has no call. */
  get tool(): string | undefined {
    return this.#tool
  }

  see(event: SessionEvent): LimitStep | undefined {
    switch (event.type) {
      case 'assistant.turn_start':
        this.#tool = undefined
        return undefined
      case 'assistant.tool_call_delta':
        if (event.data.toolName !== undefined) this.#tool = toolNameOf(event.data.toolName)
        return undefined
      case 'assistant.streaming_delta':
        if (this.#isStopping || event.data.totalResponseSizeBytes <= MAX_ANSWER_BYTES) return undefined
        this.#isStopping = true
        return 'stop'
      case 'session.idle':
        return this.#rest()
      default:
        return undefined
    }
  }

  #rest(): LimitStep | undefined {
    if (!this.#isStopping) return undefined
    this.#isStopping = false
    this.#stopped += 1
    return this.#stopped < MAX_STOPPED ? 'ask_again' : 'give_up'
  }
}
