import { PktReader } from './pkt-line.ts'

/** One update of a ref, as the client of a push asks for it. */
export interface PushCommand {
  readonly oldId: string
  readonly newId: string
  readonly ref: string
}

export interface PushFault {
  readonly reason: string
  readonly remedy: string
}

export type PushReading =
  | { readonly kind: 'more' }
  /** An empty list: git asks whether the server accepts its credential before it sends a large push. */
  | { readonly kind: 'probe' }
  | { readonly kind: 'push' }
  | ({ readonly kind: 'refused' } & PushFault)

type Capabilities = ReadonlySet<string>

export const MAX_COMMANDS = 100
/** Shallow commits of the client, which precede the commands. */
const MAX_SHALLOW = 1000
/** Two object ids, a ref and the capabilities. */
const LONGEST_LINE = 1200

/** Capabilities that change neither which refs are updated, nor what the server does with them. */
const CAPABILITIES = new Set([
  ...['agent', 'atomic', 'object-format', 'ofs-delta', 'quiet', 'report-status', 'report-status-v2'],
  ...['session-id', 'side-band-64k'],
])

const COMMAND = /^([0-9a-f]{40}|[0-9a-f]{64}) ([0-9a-f]{40}|[0-9a-f]{64}) ([\x21-\x7e]{1,255})$/
const SHALLOW = /^shallow (?:[0-9a-f]{40}|[0-9a-f]{64})$/
const PACK = 'PACK'

const USE_GIT = 'Use an unmodified git.'

const refused = (reason: string, remedy = USE_GIT): PushReading => ({ kind: 'refused', reason, remedy })

/**
 * Reads the command list at the start of a request to `git-receive-pack`, before any of it is forwarded. Accepts only one
 * spelling of everything, so that the server cannot read another list.
 */
export class PushList {
  readonly #lines = new PktReader(LONGEST_LINE)
  readonly #commands: PushCommand[] = []
  #capabilities: Capabilities | undefined
  #shallow = 0
  #isComplete = false
  #reading: PushReading = { kind: 'more' }

  /** The commands that were read so far. */
  get commands(): readonly PushCommand[] {
    return this.#commands
  }

  get capabilities(): Capabilities {
    return this.#capabilities ?? new Set()
  }

  /** Takes the next bytes of the body. The reading is final as soon as it is not `more`. */
  push(chunk: Buffer): PushReading {
    if (this.#reading.kind !== 'more') return this.#reading
    this.#lines.add(chunk)
    while (!this.#isComplete) {
      const reading = this.#step()
      if (!reading) continue
      this.#reading = reading
      return reading
    }
    this.#reading = this.#complete(false)
    return this.#reading
  }

  #step(): PushReading | undefined {
    const line = this.#lines.next()
    if (line.kind === 'more') return { kind: 'more' }
    if (line.kind === 'malformed') return refused('its list of refs is malformed')
    if (line.kind === 'line') return this.#take(line.payload.toString('latin1'))
    this.#isComplete = true
    return undefined
  }

  /** The body has ended. */
  end(): PushReading {
    if (this.#reading.kind !== 'more') return this.#reading
    this.#reading = this.#isComplete ? this.#complete(true) : refused('its list of refs ends early')
    return this.#reading
  }

  /** After the list: the objects, or nothing if the list is empty. Anything else would be a part that was not judged. */
  #complete(hasEnded: boolean): PushReading {
    const { rest } = this.#lines
    if (this.#commands.length === 0) {
      if (rest.length > 0 || this.#shallow > 0) return refused('it has no list of refs')
      return hasEnded ? { kind: 'probe' } : { kind: 'more' }
    }
    const start = rest.toString('latin1', 0, PACK.length)
    if (start === PACK) return { kind: 'push' }
    const isOpen = !hasEnded && PACK.startsWith(start)
    return isOpen ? { kind: 'more' } : refused('its list of refs is not followed by objects')
  }

  #take(payload: string): PushReading | undefined {
    const text = payload.endsWith('\n') ? payload.slice(0, -1) : payload
    if (text.startsWith('push-cert'))
      return refused('push certificates are not supported', 'Push without --signed.')
    if (this.#commands.length > 0) return this.#command(text)
    if (text.startsWith('shallow ')) return this.#countShallow(text)
    // Only the first command has capabilities.
    const [command = '', capabilities, ...more] = text.split('\0')
    if (more.length > 0) return refused('its list of refs is malformed')
    return this.#setCapabilities(capabilities ?? '') ?? this.#command(command)
  }

  #countShallow(text: string): PushReading | undefined {
    this.#shallow += 1
    if (this.#shallow > MAX_SHALLOW)
      return refused(
        `its history has more than ${MAX_SHALLOW} shallow commits`,
        'Run: git fetch --unshallow.',
      )
    return SHALLOW.test(text) ? undefined : refused('its list of refs is malformed')
  }

  #setCapabilities(text: string): PushReading | undefined {
    const asked = text.split(' ').filter((name) => name !== '')
    const names = asked.map((one) => one.split('=', 1)[0] ?? '')
    this.#capabilities = new Set(names)
    if (names.includes('push-options'))
      return refused('push options are not supported', 'Push without -o and --push-option.')
    const unknown = names.find((name) => !CAPABILITIES.has(name))
    return unknown === undefined
      ? undefined
      : refused(`it asks for the unknown capability ${JSON.stringify(unknown.slice(0, 40))}`)
  }

  #command(text: string): PushReading | undefined {
    if (this.#commands.length >= MAX_COMMANDS)
      return refused(`it updates more than ${MAX_COMMANDS} refs`, 'Push fewer branches at a time.')
    const [, oldId, newId, ref] = COMMAND.exec(text) ?? []
    if (oldId === undefined || newId === undefined || ref === undefined || oldId.length !== newId.length)
      return refused('its list of refs is malformed')
    this.#commands.push({ oldId, newId, ref })
    return undefined
  }
}
