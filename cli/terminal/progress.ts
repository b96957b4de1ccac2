type Stream = { isTTY?: boolean; write(text: string): unknown }

const SHOW_AFTER_MS = 1000
const TICK_MS = 250

/** A terminal line that shows what the command waits for, after the first second. */
export interface Progress extends Disposable {
  /** Removes the line until the next long wait. */
  clear(): void
  /** Starts a new wait. */
  waitFor(what: string): void
  /** Changes the text of the current wait, and not its start. */
  update(what: string): void
}

/** Writes only to a terminal, so log files contain no progress. */
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
    update(what) {
      if (waiting) waiting = { what, since: waiting.since }
    },
    [Symbol.dispose]() {
      clear()
      clearInterval(timer)
    },
  }
}
