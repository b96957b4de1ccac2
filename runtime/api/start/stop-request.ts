import type { EventEmitter } from 'node:events'
import type { Readable } from 'node:stream'

type Sources = {
  readonly signals: Pick<EventEmitter, 'on' | 'once' | 'off'>
  /** Ends when the process that started the service has exited. */
  readonly lifeline: Readable | undefined
  /** Called on a second signal, to stop at once. */
  readonly onImpatience: () => void
}

const SIGNALS = ['SIGTERM', 'SIGINT'] as const

/** Resolves with the reason to stop: a signal, or the end of the lifeline. */
export function stopRequest({ signals, lifeline, onImpatience }: Sources): Promise<string> {
  return new Promise((resolve) => {
    let isSignalled = false
    for (const signal of SIGNALS) {
      signals.on(signal, () => {
        // The starting process closes the lifeline and sends one signal. Only a second signal means stop at once.
        if (isSignalled) onImpatience()
        isSignalled = true
        resolve(signal)
      })
    }
    for (const end of ['end', 'close', 'error']) lifeline?.once(end, () => resolve('the lifeline ended'))
    // The lifeline carries no data, but it must be read to notice its end.
    lifeline?.resume()
  })
}
