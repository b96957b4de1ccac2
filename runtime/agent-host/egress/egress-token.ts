import { deadline } from '../../kit/deadline.ts'

/** The API sends the first token right after the configuration, and tries again if it cannot reach this process. */
const FIRST_MS = 60_000

/** The token of this AgentHost for the egress proxy, in memory. The API replaces it before it ends. */
export class EgressToken {
  readonly #first = Promise.withResolvers<void>()
  readonly #onValue: (value: string) => void
  #value = ''

  /** `onValue` is called with every token, so that the redactor knows it first. */
  constructor(onValue: (value: string) => void) {
    this.#onValue = onValue
  }

  use(value: string): void {
    this.#onValue(value)
    this.#value = value
    this.#first.resolve()
  }

  async fetch(): Promise<string> {
    await deadline('the token for the egress proxy', FIRST_MS, this.#first.promise)
    return this.#value
  }
}
