import { delay } from '../../kit/deadline.ts'

export interface KeepOpenTimes {
  /** How long an answer may take before its stream is begun. */
  readonly afterMs: number
  readonly everyMs: number
}

/** The agent runtime ends a request after 600 s without a byte, and repeats it only five times. */
export const KEEP_OPEN: KeepOpenTimes = { afterMs: 300_000, everyMs: 60_000 }

/** A line that every reader of an event stream ignores. */
const COMMENT = Buffer.from(': waiting\n\n')

/**
 * Returns the response to a streamed request. If the response takes longer than `afterMs`, returns an event stream that sends
 * comments until the response arrives, and then the response.
 */
export async function keptOpen(
  answered: Promise<Response>,
  signal: AbortSignal,
  { afterMs, everyMs }: KeepOpenTimes = KEEP_OPEN,
): Promise<Response> {
  const first = await within(answered, afterMs, signal)
  if (first) return first
  const events = async function* () {
    let answer: Response | undefined
    while (!answer) {
      yield COMMENT
      answer = await within(answered, everyMs, signal)
    }
    // The runtime repeats the request after a failure, and then sees the status.
    if (!answer.ok || !answer.body) throw new Error(`the request failed with HTTP ${answer.status}`)
    yield* answer.body
  }
  return new Response(ReadableStream.from(events()), { headers: { 'content-type': 'text/event-stream' } })
}

/** Undefined after `ms`. */
async function within<T>(work: Promise<T>, ms: number, signal: AbortSignal): Promise<T | undefined> {
  const settled = new AbortController()
  const timer = delay(ms, AbortSignal.any([signal, settled.signal])).then(() => undefined)
  timer.catch(() => undefined)
  try {
    return await Promise.race([work, timer])
  } finally {
    settled.abort()
  }
}
