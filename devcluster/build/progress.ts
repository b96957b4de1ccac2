const INTERVAL_MS = 15_000

export interface ProgressDeps {
  readonly say: (line: string) => void
  /** Seconds that this build took the last time on this machine, or the default. */
  readonly expectedSeconds: number
  readonly now?: () => number
}

/** Reports the progress of a build every few seconds: packages compiled, out of the total. */
export function createProgress(name: string, { say, expectedSeconds, now = Date.now }: ProgressDeps) {
  const start = now()
  let [total, compiled, told, downloads] = [0, 0, start, 0]

  function tick(text: () => string): void {
    if (now() - told < INTERVAL_MS) return
    told = now()
    const tookMs = now() - start
    const usual = duration(expectedSeconds * 1000)
    const isLate = tookMs > expectedSeconds * 1000
    say(`${name}: ${text()}, ${duration(tookMs)} (${isLate ? `usually ${usual}` : `about ${usual}`} in all)`)
  }

  return {
    expect(packages: number): void {
      total = packages
    },
    downloading(line: string): void {
      if (line.startsWith('go: downloading')) downloads += 1
      tick(() => `${downloads} modules downloaded`)
    },
    compiled(line: string): void {
      if (/^[\w.-]+(\/|$)/.test(line)) compiled += 1
      tick(() => `${compiled} of ${total} packages compiled`)
    },
    elapsedSeconds: () => Math.round((now() - start) / 1000),
  }
}

export type BuildProgress = ReturnType<typeof createProgress>

export function duration(ms: number): string {
  const seconds = Math.round(ms / 1000)
  return seconds < 60
    ? `${seconds} s`
    : `${Math.floor(seconds / 60)} min ${String(seconds % 60).padStart(2, '0')} s`
}
