import { createKnownStage } from './known/known-stage.ts'
import { createRedactor, type Redactor } from './redactor.ts'

/** A run uses a handful of values: its bearer, its credential and their replacements. */
const MAX_SECRETS = 64

/**
 * A redactor that can learn values during use: a credential may be replaced while its run continues. Learned
 * values apply to every text and stream started afterwards, together with earlier values.
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
  /** Redacts only the learned values. For text in which other secret-looking values must stay. */
  known(this: void, text: string): string
  learn(this: void, ...secrets: readonly string[]): void
}
