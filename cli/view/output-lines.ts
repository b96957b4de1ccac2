/** Splits a stream of chunks into lines, independent of the chunk boundaries. */
export class OutputLines {
  readonly #rest = new Map<string, string>()

  /** Returns the lines that this chunk completes. */
  take(key: string, chunk: string): string[] {
    const pieces = ((this.#rest.get(key) ?? '') + chunk).split('\n')
    this.#rest.set(key, pieces.pop() ?? '')
    return pieces
  }

  knows(key: string): boolean {
    return this.#rest.has(key)
  }

  /** Returns the unfinished last line, if any. */
  flush(key: string): string[] {
    const rest = this.#rest.get(key)
    this.#rest.delete(key)
    return rest ? [rest] : []
  }
}
