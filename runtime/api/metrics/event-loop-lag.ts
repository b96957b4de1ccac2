import { monitorEventLoopDelay } from 'node:perf_hooks'

const RESOLUTION_MS = 20
const NANO = 1e9

export type EventLoopLag = { readonly max: number; readonly p99: number }

/** Measures after the first call, so that a service without a metrics collector has no timer. */
export class EventLoopMonitor {
  #histogram: ReturnType<typeof monitorEventLoopDelay> | undefined

  /** Seconds since the last call. Undefined at the first call, and without a measurement since the last one. */
  read(): EventLoopLag | undefined {
    const histogram = this.#histogram
    if (!histogram) {
      this.#histogram = monitorEventLoopDelay({ resolution: RESOLUTION_MS })
      this.#histogram.enable()
      return undefined
    }
    if (histogram.count === 0) return undefined
    const lag = { max: delayOf(histogram.max), p99: delayOf(histogram.percentile(99)) }
    histogram.reset()
    return lag
  }
}

/** The histogram has the time between two ticks of its timer. */
const delayOf = (nanoseconds: number): number => Math.max(0, nanoseconds / NANO - RESOLUTION_MS / 1_000)
