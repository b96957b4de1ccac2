import type { CredentialUsed } from '../../../contracts/egress.ts'

interface Use {
  readonly used: Omit<CredentialUsed, 'count'>
  count: number
  reportedAt: number
}

export interface CredentialUsesOptions {
  readonly report: (used: CredentialUsed) => void
  readonly now: () => number
  /** How often repeats are reported. */
  readonly repeatMs: number
}

/** Counts the uses of the credentials of a sandbox, by host, and reports them. */
export class CredentialUses {
  readonly #options: CredentialUsesOptions
  readonly #uses = new Map<string, Use>()

  constructor(options: CredentialUsesOptions) {
    this.#options = options
  }

  add(credentialId: string, host: string): void {
    const key = `${credentialId} ${host}`
    const use = this.#uses.get(key) ?? {
      used: { credentialId, host },
      count: 0,
      reportedAt: Number.NEGATIVE_INFINITY,
    }
    use.count += 1
    this.#uses.set(key, use)
    this.flush()
  }

  /** Reports repeats that are due. */
  flush(): void {
    const { now, repeatMs } = this.#options
    for (const use of this.#uses.values()) if (now() - use.reportedAt >= repeatMs) this.#report(use)
  }

  close(): void {
    for (const use of this.#uses.values()) this.#report(use)
  }

  #report(use: Use): void {
    if (use.count === 0) return
    const { count } = use
    use.count = 0
    use.reportedAt = this.#options.now()
    this.#options.report({ ...use.used, count })
  }
}
