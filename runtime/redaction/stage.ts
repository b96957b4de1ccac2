/** One step of a redacted stream: receives text and returns text as soon as it is decided. */
export interface Stage {
  push(chunk: string): string
  /** Returns the text that was held back. `push` must not be called afterwards. */
  end(): string
  /** Whether text is held back, or the next text may still belong to a secret. */
  readonly isHolding: boolean
  /** Returns an independent copy in the same state. */
  copy(): Stage
}

/** Runs two stages in sequence. */
export const chain = (first: Stage, second: Stage): Stage => ({
  push: (chunk) => second.push(first.push(chunk)),
  end: () => second.push(first.end()) + second.end(),
  get isHolding() {
    return first.isHolding || second.isHolding
  },
  copy: () => chain(first.copy(), second.copy()),
})
