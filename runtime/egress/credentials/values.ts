/** A credential that a sandbox may use. */
export interface CredentialKey {
  readonly runId: string
  readonly generation: number
  readonly credential: string
}

export interface CredentialValuesOptions {
  /** Asks the API, which alone can read the value. Rejects with a reason for people. */
  readonly fetch: (key: CredentialKey) => Promise<string>
  /** @default 5 minutes */
  readonly keepMs?: number
}

const KEEP_MS = 300_000
/** A failure is kept for a shorter time. */
const RETRY_MS = 5_000

interface Kept {
  readonly value: Promise<string>
  readonly timer: NodeJS.Timeout
}

/** The values of credentials: fetched at the first use of each sandbox, and kept for minutes. */
export class CredentialValues {
  readonly #fetch: CredentialValuesOptions['fetch']
  readonly #keepMs: number
  readonly #kept = new Map<string, Map<string, Kept>>()

  constructor({ fetch, keepMs = KEEP_MS }: CredentialValuesOptions) {
    this.#fetch = fetch
    this.#keepMs = keepMs
  }

  get(key: CredentialKey): Promise<string> {
    const ofSandbox = this.#kept.get(sandboxOf(key)) ?? new Map<string, Kept>()
    this.#kept.set(sandboxOf(key), ofSandbox)
    const kept = ofSandbox.get(key.credential)
    if (kept) return kept.value
    const forget = () => this.#forget(ofSandbox, key.credential)
    const value = this.#fetch(key)
    const timer = setTimeout(forget, this.#keepMs)
    timer.unref()
    ofSandbox.set(key.credential, { value, timer })
    // Otherwise a command could make the service try many times a second.
    value.catch(() => setTimeout(forget, RETRY_MS).unref())
    return value
  }

  /** Forgets the values of all sandboxes that are not listed. */
  retain(listed: readonly Omit<CredentialKey, 'credential'>[]): void {
    const live = new Set(listed.map(sandboxOf))
    for (const [sandbox, kept] of this.#kept) {
      if (live.has(sandbox)) continue
      for (const credential of [...kept.keys()]) this.#forget(kept, credential)
      this.#kept.delete(sandbox)
    }
  }

  #forget(kept: Map<string, Kept>, credential: string): void {
    clearTimeout(kept.get(credential)?.timer)
    kept.delete(credential)
  }
}

const sandboxOf = ({ runId, generation }: Omit<CredentialKey, 'credential'>) => `${runId} ${generation}`
