import type { SessionEvent } from '@github/copilot-sdk'

/**
 * The longest answer of a model, its calls included, in bytes. No model writes as much in one answer (a million tokens
 * are about 4 MB), and the agent runtime needs more than fifty times the size of an answer as memory.
 */
const MAX_ANSWER_BYTES = 8_388_608

/** Answers that are stopped in one turn before the turn fails: a model that goes on costs money and gets nowhere. */
const MAX_STOPPED = 3

/** The longest name of a tool that an event carries. */
const MAX_TOOL_NAME = 128

/** A model may write anything as a name. The runtime shows most names in this form, but not those of deltas. */
export const toolNameOf = (name: string): string =>
  name.slice(0, MAX_TOOL_NAME).replaceAll(/[^\w-]/g, '_') || 'unknown'

/** What the model is told of an answer that was stopped. */
export const ANSWER_STOPPED =
  `Your last answer was stopped because it was longer than ${MAX_ANSWER_BYTES} bytes. No call in it was carried out. ` +
  'Make smaller calls: write a large file in parts, or have a command write it.'

export const ANSWERS_TOO_LONG = `The model gave ${MAX_STOPPED} answers of more than ${MAX_ANSWER_BYTES} bytes each. Give it a smaller task, or check its server.`

/** What an event means for the answer that the model is giving. */
type LimitStep = 'stop' | 'ask_again' | 'give_up'

/** Watches how long the answers of one turn are, while they come in. */
export class AnswerLimit {
  #stopped = 0
  #isStopping = false
  #tool: string | undefined

  /** From the event that stops an answer until the runtime rests. */
  get isStopping(): boolean {
    return this.#isStopping
  }

  /** The tool whose call the model was writing last; undefined where the answer has no call. */
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
