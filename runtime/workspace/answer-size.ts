/** Largest result in JSON, in bytes. The protocol frame allows twice as much. */
const MAX_ANSWER_BYTES = 524_288

/** Tracks the size of a result, so that long names cannot make it too large to send. */
export class AnswerSize {
  #bytes = 0

  /** Returns whether one more item fits, and counts it if so. */
  fits(item: unknown): boolean {
    const bytes = Buffer.byteLength(JSON.stringify(item)) + 1
    if (this.#bytes + bytes > MAX_ANSWER_BYTES) return false
    this.#bytes += bytes
    return true
  }
}
