/** Largest answer in JSON; the frame that carries it has room for twice as much. */
const MAX_ANSWER_BYTES = 524_288

/** Counts what an answer grows to, so that long names cannot make one too large to send. */
export class AnswerSize {
  #bytes = 0

  /** Whether one more item fits; counts it if so. */
  fits(item: unknown): boolean {
    const bytes = Buffer.byteLength(JSON.stringify(item)) + 1
    if (this.#bytes + bytes > MAX_ANSWER_BYTES) return false
    this.#bytes += bytes
    return true
  }
}
