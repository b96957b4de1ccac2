const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
export type InterruptSignal = (typeof SIGNALS)[number]

/** Signal handling while a command needs it. At a prompt, Ctrl-C is no signal and `raise` reports it. */
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
