/** Keeps the beginning and the end of a text of any length in bounded memory. */
export class HeadAndTail {
  readonly #headMax: number
  readonly #tailMax: number
  #head = ''
  #tail = ''
  #dropped = 0

  constructor(headMax: number, tailMax: number) {
    this.#headMax = headMax
    this.#tailMax = tailMax
  }

  push(text: string): void {
    const forHead = text.slice(0, this.#headMax - this.#head.length)
    this.#head += forHead
    this.#tail += text.slice(forHead.length)
    const surplus = this.#tail.length - this.#tailMax
    // Trimmed in large steps: trimming at each small chunk would copy the tail every time.
    if (surplus > this.#tailMax) this.#dropFromTail(surplus)
  }

  /** Number of characters that `toString` omits. */
  get dropped(): number {
    return this.#dropped + Math.max(0, this.#tail.length - this.#tailMax)
  }

  toString(): string {
    this.#dropFromTail(this.#tail.length - this.#tailMax)
    if (this.#dropped === 0) return this.#head + this.#tail
    return `${this.#head}\n[… ${this.#dropped} characters left out …]\n${this.#tail}`
  }

  #dropFromTail(count: number): void {
    if (count <= 0) return
    this.#tail = this.#tail.slice(count)
    this.#dropped += count
  }
}
