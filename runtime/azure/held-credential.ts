import { SandboxError } from '../kit/errors.ts'
import type { Log } from '../kit/log.ts'

export type Held = { readonly value: string; readonly expiresAtMs?: number }

export type HeldCredentialOptions = {
  readonly read: () => Promise<Held>
  /** Called with every new value before `fetch` returns it. */
  readonly onValue: (value: string) => void
  readonly now?: () => number
  readonly log: Log
}

/** A value is read again after this time, so that a rotation takes effect. */
export const REFRESH_MS = 300_000
/** A value is read again if it expires within this time. */
const EXPIRY_MARGIN_MS = 300_000

/**
 * Keeps a credential in memory and reads it again when it is old or about to expire. If the server is unavailable, the old
 * value is used until it expires. If the server reports that access is forbidden or the secret is gone, the value is
 * dropped. Failures are not cached.
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
    this.#options.log.warn('the credential could not be refreshed; the current value is still used', {
      error,
    })
    return held.value
  }
}
