import { createKnownStage } from './known/known-stage.ts'
import { createRedactor, type Redactor } from './redactor.ts'

/** A run meets a handful of values: its bearer, its credential, and what replaces that. */
const MAX_SECRETS = 64

/**
 * A redactor that learns values while it is used, as a credential is replaced while its run goes on. What it has
 * learned counts for everything that is begun afterwards; earlier values go on to count.
 */
export function createGrowingRedactor({ pii }: { readonly pii: boolean }): GrowingRedactor {
  let secrets: readonly string[] = []
  let current: Redactor | undefined
  const redactor = () => {
    current ??= createRedactor({ secrets, pii })
    return current
  }
  return {
    text: (text) => redactor().text(text),
    json: (value) => redactor().json(value),
    stream: () => redactor().stream(),
    known: (text) => {
      const stage = createKnownStage(secrets)?.()
      return stage ? stage.push(text) + stage.end() : text
    },
    learn: (...values) => {
      secrets = [...new Set([...secrets, ...values])].slice(-MAX_SECRETS)
      current = undefined
    },
  }
}

export interface GrowingRedactor extends Redactor {
  /** Redacts the learned values and nothing else, where what looks like a secret must stay as it is. */
  known(this: void, text: string): string
  learn(this: void, ...secrets: readonly string[]): void
}
