import type { HostEvent } from '../../contracts/events.ts'
import type { Redactor, RedactorStream } from './redactor.ts'

/**
 * Messages and outputs that are open at a time. A sandbox chooses their names, so that it could open as many as it
 * likes; an honest one has two for each command that runs, and one for a message.
 */
const MAX_OPEN = 256

type Open = { readonly stream: RedactorStream; readonly rebuild: (text: string) => HostEvent }

/**
 * Redacts the events of one sandbox. Text that comes in pieces (deltas of a message, output of a command) is
 * redacted as one stream, so that a secret cut in two is found; an event may come out as none, and what was held
 * back comes out before the event that ends its stream, or before the one that opens too many.
 */
export class EventRedactor {
  readonly #redactor: Redactor
  readonly #open: Map<string, Open>

  constructor(redactor: Redactor, open: Iterable<readonly [string, Open]> = []) {
    this.#redactor = redactor
    this.#open = new Map(open)
  }

  /** Whether some text has not come out yet. */
  get isHolding(): boolean {
    return [...this.#open.values()].some(({ stream }) => stream.isHolding)
  }

  /** One in the same state; from here on each goes its own way. */
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
    // The one that was quiet for longest comes first.
    this.#open.delete(key)
    const [quietest] = this.#open.keys()
    const ended = this.#open.size >= MAX_OPEN && quietest !== undefined ? this.#end(quietest) : []
    this.#open.set(key, { stream, rebuild })
    const said = stream.push(text)
    return said === '' ? ended : [...ended, rebuild(said)]
  }

  /** Ends the streams with this key, or below it. */
  #end(key: string): HostEvent[] {
    const ended = [...this.#open].filter(([other]) => other === key || other.startsWith(`${key} `))
    return ended.flatMap(([other, { stream, rebuild }]) => {
      this.#open.delete(other)
      const rest = stream.end()
      return rest === '' ? [] : [rebuild(rest)]
    })
  }
}
