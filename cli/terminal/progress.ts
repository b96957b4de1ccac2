type Stream = { isTTY?: boolean; write(text: string): unknown }

const SHOW_AFTER_MS = 1000
const TICK_MS = 250

/** A line on a terminal that says what is being waited for, once it takes longer than a second. */
export interface Progress extends Disposable {
  /** Takes the line away; it comes back when the next wait gets long. */
  clear(): void
  /** Starts a new wait. */
  waitFor(what: string): void
}

/** Writes to a terminal only: a log file gets no progress. */
export function createProgress(stream: Stream, now: () => number = Date.now): Progress {
  let waiting: { what: string; since: number } | undefined
  let shown = false
  const erase = () => {
    if (shown) stream.write('\r\u001b[K')
    shown = false
  }
  const tick = () => {
    if (!waiting || now() - waiting.since < SHOW_AFTER_MS) return
    const seconds = Math.floor((now() - waiting.since) / 1000)
    stream.write(`\r\u001b[K\u001b[2m${waiting.what} … ${seconds} s\u001b[22m`)
    shown = true
  }
  const timer = stream.isTTY ? setInterval(tick, TICK_MS) : undefined
  timer?.unref()
  const clear = () => {
    waiting = undefined
    erase()
  }
  return {
    clear,
    waitFor(what) {
      erase()
      waiting = { what, since: now() }
    },
    [Symbol.dispose]() {
      clear()
      clearInterval(timer)
    },
  }
}
