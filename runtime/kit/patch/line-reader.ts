import { PatchSyntaxError } from './patch-model.ts'

/** Reads a patch line by line and tracks the line number. */
export class LineReader {
  readonly #lines: readonly string[]
  #at = 0

  constructor(patch: string) {
    const lines = patch.split('\n')
    if (lines.at(-1) === '') lines.pop()
    // If a patch's own headers end in CR, the whole patch was sent with CRLF. That does not describe the files.
    const isCrlf = lines.length > 0 && lines.every((line) => line === '' || line.endsWith('\r'))
    this.#lines = isCrlf ? lines.map((line) => line.slice(0, -1)) : lines
  }

  /** The line to be read next, or undefined at the end. */
  get next(): string | undefined {
    return this.#lines[this.#at]
  }

  take(): string {
    const line = this.next
    if (line === undefined) throw this.problemAhead('the patch ends too early')
    this.#at += 1
    return line
  }

  takeIf(matches: (line: string) => boolean): string | undefined {
    return this.next !== undefined && matches(this.next) ? this.take() : undefined
  }

  skipBlank(): void {
    while (this.next?.trim() === '') this.#at += 1
  }

  /** A problem with the line that was taken last. */
  problem(message: string): PatchSyntaxError {
    return new PatchSyntaxError(Math.max(this.#at, 1), message)
  }

  /** A problem with the next line, or with its absence. */
  problemAhead(message: string): PatchSyntaxError {
    return new PatchSyntaxError(Math.min(this.#at + 1, Math.max(this.#lines.length, 1)), message)
  }
}
