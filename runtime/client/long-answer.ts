import { randomUUID } from 'node:crypto'
import { HEARTBEAT_MS } from '../../contracts/limits.ts'
import { delay } from '../kit/deadline.ts'
import { SandboxError } from '../kit/errors.ts'
import { isWorthAnotherTry } from './event-stream.ts'
import type { Transport, WireRequest } from './transport.ts'

/** A connection without data for three heartbeats counts as broken. */
const SILENCE_MS = 3 * HEARTBEAT_MS
const BACK_OFF_MS = [250, 500, 1000, 2000, 4000]

/**
 * Sends a request whose answer may come much later, and returns the text of the answer. The service sends line feeds
 * while it waits. All attempts have one idempotency key, so the service does the work once.
 */
export async function readLongAnswer(transport: Transport, request: WireRequest): Promise<string> {
  const repeatable = { ...request, idempotencyKey: request.idempotencyKey ?? randomUUID() }
  for (const wait of BACK_OFF_MS) {
    try {
      return await readOnce(transport, repeatable)
    } catch (error) {
      request.signal?.throwIfAborted()
      if (!isWorthAnotherTry(error)) throw error
      await delay(wait, request.signal)
    }
  }
  return readOnce(transport, repeatable)
}

async function readOnce(transport: Transport, request: WireRequest): Promise<string> {
  const silence = new AbortController()
  const signal = request.signal ? AbortSignal.any([request.signal, silence.signal]) : silence.signal
  const watchdog = setTimeout(
    () => silence.abort(new SandboxError('unavailable', 'The service stopped sending its answer.')),
    SILENCE_MS,
  )
  try {
    const response = await transport.open({ ...request, signal })
    const decoder = new TextDecoder()
    let text = ''
    for await (const chunk of response.body ?? []) {
      watchdog.refresh()
      text += decoder.decode(chunk, { stream: true })
    }
    return text + decoder.decode()
  } finally {
    clearTimeout(watchdog)
  }
}
