const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
export type InterruptSignal = (typeof SIGNALS)[number]

/** Signals of this process while a command cares about them. Ctrl-C at a question is raised by hand. */
export interface Interrupts extends Disposable {
  raise(signal: InterruptSignal): void
}

export function onInterrupt(handle: (signal: InterruptSignal) => void): Interrupts {
  for (const signal of SIGNALS) process.on(signal, handle)
  return {
    raise: handle,
    [Symbol.dispose]() {
      for (const signal of SIGNALS) process.off(signal, handle)
    },
  }
}
