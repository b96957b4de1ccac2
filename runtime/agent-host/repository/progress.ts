export interface GitProgress {
  readonly step: string
  readonly percent?: number
}

const MAX_PENDING = 4_096
const MAX_LINES = 20
const MAX_LINE = 500
const PROGRESS = /^(?:remote: )?([A-Z][A-Za-z ]{1,40}):\s+(?:(\d{1,3})% )?/
/** Lines about how much git has done. They explain no failure. */
const IS_PROGRESS = /\d+% \(|, done\.?$|^remote: (?:Total|Enumerating|Counting|Compressing) /
const CONTROL = /[\p{Cc}\p{Cf}]/gu

/** Reads git's standard error: progress as it happens, and the last lines that explain a failure. */
export class GitMessages {
  readonly #onProgress: (progress: GitProgress) => void
  readonly #decoder = new TextDecoder()
  #pending = ''
  #lines: string[] = []

  constructor(onProgress: (progress: GitProgress) => void = () => undefined) {
    this.#onProgress = onProgress
  }

  push(bytes: Uint8Array): void {
    const pieces = (this.#pending + this.#decoder.decode(bytes, { stream: true })).split(/[\r\n]/)
    this.#pending = (pieces.pop() ?? '').slice(0, MAX_PENDING)
    for (const piece of pieces) this.#take(piece)
  }

  /** The last lines, without progress. */
  end(): readonly string[] {
    this.#take(this.#pending)
    this.#pending = ''
    return this.#lines
  }

  #take(text: string): void {
    const line = text.replaceAll(CONTROL, ' ').trim().slice(0, MAX_LINE)
    if (line === '') return
    if (!IS_PROGRESS.test(line)) {
      this.#lines = [...this.#lines, line].slice(-MAX_LINES)
      return
    }
    const [, step, percent] = PROGRESS.exec(line) ?? []
    if (step === undefined) return
    const number = Math.min(Number(percent), 100)
    this.#onProgress({ step, ...(percent !== undefined && { percent: number }) })
  }
}

/**
 * The lines that say why git failed: the message of the egress proxy or the server, and git's own last sentence. Git also
 * prints general advice, which is left out.
 */
export function failureText(lines: readonly string[]): string {
  const said = lines.filter((line) => /^(?:remote: )?(?:agentweaver: |error: |ERROR: )|^remote: /.test(line))
  const last = lines.findLast((line) => line.startsWith('fatal: ')) ?? lines.at(-1)
  const all = [...new Set([...said.slice(-3), ...(last === undefined ? [] : [last])])]
  return all.map((line) => line.replace(/^remote: /, '')).join(' ')
}
