import { createRedactor, type Redactor } from './redactor.ts'

/** Values of one owner that are remembered. An owner has far fewer at a time. */
const MAX_OF_OWNER = 128

type Kept = { readonly values: Set<string>; readonly redactors: Map<boolean, Redactor> }

/**
 * Redactors that learn the credentials of owners. The values of an owner are redacted in the runs of this owner only: a value
 * that is a common text would otherwise hide it in the runs of everybody.
 */
export class OwnerRedactors {
  #secrets: readonly string[]
  readonly #owners = new Map<string, Kept>()
  #ofAll: Redactor | undefined

  /** `secrets`: the deployment's own, which are redacted everywhere. */
  constructor(secrets: readonly string[]) {
    this.#secrets = secrets
  }

  /** Adds a secret of the deployment. */
  learnOfDeployment(value: string): void {
    this.#secrets = [...new Set([...this.#secrets, value])]
    this.#ofAll = undefined
    for (const { redactors } of this.#owners.values()) redactors.clear()
  }

  /** Applies to every text and stream that begins later. A value that is replaced or removed stays redacted. */
  learn(owner: string, value: string): void {
    const kept = this.#owners.get(owner) ?? { values: new Set(), redactors: new Map() }
    if (kept.values.has(value)) return
    const values = new Set([...kept.values, value].slice(-MAX_OF_OWNER))
    this.#owners.set(owner, { values, redactors: new Map() })
    this.#ofAll = undefined
  }

  /** For texts about no single owner, such as the log. */
  readonly text = (text: string): string => {
    const all = [...this.#owners.values()].flatMap(({ values }) => [...values])
    this.#ofAll ??= createRedactor({ secrets: [...this.#secrets, ...all], pii: false })
    return this.#ofAll.text(text)
  }

  /** For the runs of an owner. */
  of(owner: string, pii: boolean): Redactor {
    const now = () => this.#redactorOf(owner, pii)
    return {
      text: (text) => now().text(text),
      json: (value) => now().json(value),
      stream: () => now().stream(),
    }
  }

  #redactorOf(owner: string, pii: boolean): Redactor {
    const kept = this.#owners.get(owner) ?? { values: new Set(), redactors: new Map<boolean, Redactor>() }
    this.#owners.set(owner, kept)
    const known = kept.redactors.get(pii)
    if (known) return known
    const redactor = createRedactor({ secrets: [...this.#secrets, ...kept.values], pii })
    kept.redactors.set(pii, redactor)
    return redactor
  }
}
