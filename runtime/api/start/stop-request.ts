import type { EventEmitter } from 'node:events'
import type { Readable } from 'node:stream'

type Sources = {
  readonly signals: Pick<EventEmitter, 'on' | 'once' | 'off'>
  /** Ends when the process that started the service has exited. */
  readonly lifeline: Readable | undefined
  /** Whether the process that the service must not outlive has ended. */
  readonly hasLostParent: () => boolean
  /** Called on a second signal, to stop at once. */
  readonly onImpatience: () => void
}

const SIGNALS = ['SIGTERM', 'SIGINT'] as const

/** Nothing reports the death of a parent, so it must be looked for. */
const PARENT_EVERY_MS = 1_000

/** Resolves with the reason to stop: a signal, the end of the lifeline, or the loss of the parent. */
export function stopRequest({ signals, lifeline, hasLostParent, onImpatience }: Sources): Promise<string> {
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
    const looking = setInterval(() => {
      if (!hasLostParent()) return
      clearInterval(looking)
      resolve('the command that started the service has ended')
    }, PARENT_EVERY_MS).unref()
    // The lifeline carries no data, but it must be read to notice its end.
    lifeline?.resume()
  })
}
