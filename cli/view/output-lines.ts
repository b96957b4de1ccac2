/** Cuts a stream of chunks into lines, so that what is shown does not depend on how the output was cut. */
export class OutputLines {
  readonly #rest = new Map<string, string>()

  /** The lines that this chunk completes. */
  take(key: string, chunk: string): string[] {
    const pieces = ((this.#rest.get(key) ?? '') + chunk).split('\n')
    this.#rest.set(key, pieces.pop() ?? '')
    return pieces
  }

  knows(key: string): boolean {
    return this.#rest.has(key)
  }

  /** What is left without a line end. */
  flush(key: string): string[] {
    const rest = this.#rest.get(key)
    this.#rest.delete(key)
    return rest ? [rest] : []
  }
}
