/** A step of a stream: text in, text out, as soon as it is decided. */
export interface Stage {
  push(chunk: string): string
  /** What was held back. Nothing may be pushed afterwards. */
  end(): string
  /** Whether something was held back, or what comes next may still belong to a secret. */
  readonly isHolding: boolean
  /** A step in the same state; from here on each goes its own way. */
  copy(): Stage
}

/** Two stages after one another. */
export const chain = (first: Stage, second: Stage): Stage => ({
  push: (chunk) => second.push(first.push(chunk)),
  end: () => second.push(first.end()) + second.end(),
  get isHolding() {
    return first.isHolding || second.isHolding
  },
  copy: () => chain(first.copy(), second.copy()),
})
