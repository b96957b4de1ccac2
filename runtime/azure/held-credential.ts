import { SandboxError } from '../kit/errors.ts'
import type { Log } from '../kit/log.ts'

export type Held = { readonly value: string; readonly expiresAtMs?: number }

export type HeldCredentialOptions = {
  readonly read: () => Promise<Held>
  /** Called with every new value before anybody else gets it. */
  readonly onValue: (value: string) => void
  readonly now?: () => number
  readonly log: Log
}

/** A value is asked for again after so long, so that a rotation is seen. */
export const REFRESH_MS = 300_000
/** So long before its end a value is no longer handed out without asking. */
const EXPIRY_MARGIN_MS = 300_000

/**
 * A credential in memory, and nowhere else. It is read again when it grows old or comes near its end; a value that
 * has not ended outlives a server that does not answer, but not one that says that it is forbidden or gone.
 * Failures are not remembered.
 */
export class HeldCredential {
  readonly #options: HeldCredentialOptions
  readonly #now: () => number
  #held: (Held & { readonly readAtMs: number }) | undefined
  #reading: Promise<string> | undefined

  constructor(options: HeldCredentialOptions) {
    this.#options = options
    this.#now = options.now ?? Date.now
  }

  async fetch(): Promise<string> {
    const held = this.#held
    if (held && !this.#isStale(held)) return held.value
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined
    })
    return this.#reading
  }

  #isStale({ readAtMs, expiresAtMs = Number.POSITIVE_INFINITY }: Held & { readAtMs: number }): boolean {
    const now = this.#now()
    return now - readAtMs >= REFRESH_MS || now >= expiresAtMs - EXPIRY_MARGIN_MS
  }

  async #read(): Promise<string> {
    try {
      const held = await this.#options.read()
      if (held.value !== this.#held?.value) this.#options.onValue(held.value)
      this.#held = { ...held, readAtMs: this.#now() }
      return held.value
    } catch (error) {
      return this.#outlive(error)
    }
  }

  #outlive(error: unknown): string {
    const held = this.#held
    const isAlive = held && this.#now() < (held.expiresAtMs ?? Number.POSITIVE_INFINITY)
    if (!isAlive || !(error instanceof SandboxError) || error.code !== 'credential_unavailable') {
      this.#held = undefined
      throw error
    }
    this.#options.log.warn('the credential could not be read again; the one at hand still serves', { error })
    return held.value
  }
}
