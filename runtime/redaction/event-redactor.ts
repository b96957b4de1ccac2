import type { HostEvent } from '../../contracts/events.ts'
import type { Redactor, RedactorStream } from './redactor.ts'

/**
 * Maximum number of open messages and outputs. The sandbox chooses their ids, so it could open any number; a
 * normal one has two per running command and one per message.
 */
const MAX_OPEN = 256

type Open = { readonly stream: RedactorStream; readonly rebuild: (text: string) => HostEvent }

/**
 * Redacts the events of one sandbox. Text that arrives in pieces (message deltas, command output) is redacted
 * as one stream, so that a secret split across events is found. An event may therefore be held back; the held
 * text is emitted before the event that ends its stream, or when too many streams are open.
 */
export class EventRedactor {
  readonly #redactor: Redactor
  readonly #open: Map<string, Open>

  constructor(redactor: Redactor, open: Iterable<readonly [string, Open]> = []) {
    this.#redactor = redactor
    this.#open = new Map(open)
  }

  /** Whether some text has not been emitted yet. */
  get isHolding(): boolean {
    return [...this.#open.values()].some(({ stream }) => stream.isHolding)
  }

  /** Returns an independent copy in the same state. */
  copy(): EventRedactor {
    const open = [...this.#open].map(
      ([key, { stream, rebuild }]) => [key, { stream: stream.copy(), rebuild }] as const,
    )
    return new EventRedactor(this.#redactor, open)
  }

  redact(event: HostEvent): HostEvent[] {
    switch (event.type) {
      case 'agent.message.delta': {
        const { data } = event
        return this.#push(`message ${data.messageId}`, data.text, (text) => ({
          ...event,
          data: { ...data, text },
        }))
      }
      case 'command.output': {
        const { data } = event
        const key = `output ${data.commandId} ${data.stream}`
        return this.#push(key, data.chunk, (chunk) => ({ ...event, data: { ...data, chunk } }))
      }
      case 'agent.message':
        return [...this.#end(`message ${event.data.messageId}`), this.#whole(event)]
      case 'command.exited':
        return [...this.#end(`output ${event.data.commandId}`), this.#whole(event)]
      case 'tool.result':
      case 'tool.error':
        return [...this.#end(`output ${event.data.callId}`), this.#whole(event)]
      case 'turn.ended':
        return [...this.#end('message'), this.#whole(event)]
      default:
        return [this.#whole(event)]
    }
  }

  #whole(event: HostEvent): HostEvent {
    return this.#redactor.json(event).value
  }

  #push(key: string, text: string, rebuild: Open['rebuild']): HostEvent[] {
    const stream = this.#open.get(key)?.stream ?? this.#redactor.stream()
    // Re-inserted last, so that the first entry is always the stream that was idle longest.
    this.#open.delete(key)
    const [quietest] = this.#open.keys()
    const ended = this.#open.size >= MAX_OPEN && quietest !== undefined ? this.#end(quietest) : []
    this.#open.set(key, { stream, rebuild })
    const said = stream.push(text)
    return said === '' ? ended : [...ended, rebuild(said)]
  }

  /** Ends the stream with this key and all streams whose key starts with it. */
  #end(key: string): HostEvent[] {
    const ended = [...this.#open].filter(([other]) => other === key || other.startsWith(`${key} `))
    return ended.flatMap(([other, { stream, rebuild }]) => {
      this.#open.delete(other)
      const rest = stream.end()
      return rest === '' ? [] : [rebuild(rest)]
    })
  }
}
