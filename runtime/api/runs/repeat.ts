import { delay } from '../../kit/deadline.ts'

/** Does `round` again and again, `everyMs` after the last one ended, until stopped; `stop` waits for the one at work. */
export function repeat(round: () => Promise<void>, everyMs: number): { stop(): Promise<void> } {
  const stop = new AbortController()
  const rounds = (async () => {
    for (;;) {
      await delay(everyMs, stop.signal)
      await round()
    }
  })().catch(() => undefined)
  return {
    async stop() {
      stop.abort()
      await rounds
    },
  }
}
