/** A step of a stream: text in, text out, as soon as it is decided. */
export interface Stage {
  push(chunk: string): string
  /** What was held back. Nothing may be pushed afterwards. */
  end(): string
}

/** Two stages after one another. */
export const chain = (first: Stage, second: Stage): Stage => ({
  push: (chunk) => second.push(first.push(chunk)),
  end: () => second.push(first.end()) + second.end(),
})
