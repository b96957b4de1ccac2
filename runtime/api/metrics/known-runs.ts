const MAX_RUNS = 10_000

/** Facts about runs of this process. A run that another replica took over leaves its entry behind; the oldest entries make room. */
export class KnownRuns<Facts> {
  readonly #runs = new Map<string, Facts>()
  readonly #begin: () => Facts

  constructor(begin: () => Facts) {
    this.#begin = begin
  }

  /** The facts of a run, which begin here if there are none. */
  of(runId: string): Facts {
    const known = this.#runs.get(runId)
    if (known !== undefined) return known
    const begun = this.#begin()
    this.#runs.set(runId, begun)
    const [oldest] = this.#runs.keys()
    if (this.#runs.size > MAX_RUNS && oldest !== undefined) this.#runs.delete(oldest)
    return begun
  }

  get(runId: string): Facts | undefined {
    return this.#runs.get(runId)
  }

  delete(runId: string): void {
    this.#runs.delete(runId)
  }
}
