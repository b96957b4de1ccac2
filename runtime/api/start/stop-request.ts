import type { EventEmitter } from 'node:events'
import type { Readable } from 'node:stream'

type Sources = {
  readonly signals: Pick<EventEmitter, 'on' | 'once' | 'off'>
  /** Ends when whoever started the service is gone. */
  readonly lifeline: Readable | undefined
  /** Called at a second signal, when waiting has become too long for somebody. */
  readonly onImpatience: () => void
}

const SIGNALS = ['SIGTERM', 'SIGINT'] as const

/** Resolves with why the service should stop: a signal, or the end of its lifeline. */
export function stopRequest({ signals, lifeline, onImpatience }: Sources): Promise<string> {
  return new Promise((resolve) => {
    let isStopping = false
    const stop = (reason: string) => {
      if (isStopping) return
      isStopping = true
      resolve(reason)
    }
    for (const signal of SIGNALS) {
      signals.on(signal, () => (isStopping ? onImpatience() : stop(signal)))
    }
    for (const end of ['end', 'close', 'error']) lifeline?.once(end, () => stop('the lifeline ended'))
    // Nothing is expected on it; read, it tells when the other side is gone.
    lifeline?.resume()
  })
}
