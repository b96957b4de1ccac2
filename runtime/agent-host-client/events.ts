import { createParser } from 'eventsource-parser'
import { HostEnvelope } from '../../contracts/events.ts'
import { HEARTBEAT_MS } from '../../contracts/limits.ts'
import { AGENT_HOST_ROUTES, LAST_EVENT_ID_HEADER } from '../../contracts/routes.ts'
import { SandboxError } from '../kit/errors.ts'
import { type AgentHostConnection, malformed } from './connection.ts'

/** The largest event a sandbox may send; more ends the stream. */
const MAX_EVENT_CHARACTERS = 34_000_000

/**
 * After this long without data the connection counts as lost, even if TCP reports none. Heartbeats come three times as
 * often.
 */
export const SILENCE_MS = 3 * HEARTBEAT_MS

/**
 * Yields the events of a sandbox after a sequence. Ends when the connection ends; the caller then reconnects after the
 * last sequence that it has committed. A malformed or out-of-order event ends the run, because the pod is not trusted.
 */
export async function* followHostEvents(
  connection: AgentHostConnection,
  after: number,
  signal: AbortSignal,
): AsyncGenerator<HostEnvelope> {
  let expected = after + 1
  const parsed: HostEnvelope[] = []
  const parser = createParser({
    onEvent: ({ data }) => {
      const envelope = parseEnvelope(data)
      if (envelope.sequence !== expected) {
        throw new SandboxError(
          'sandbox_lost',
          `the sandbox sent event ${envelope.sequence} where ${expected} was due`,
        )
      }
      expected += 1
      parsed.push(envelope)
    },
  })
  const decoder = new TextDecoder()
  let unfinished = 0
  for await (const chunk of readUntilSilent(connection, after, signal)) {
    const text = decoder.decode(chunk, { stream: true })
    parser.feed(text)
    unfinished = parsed.length > 0 ? 0 : unfinished + text.length
    if (unfinished > MAX_EVENT_CHARACTERS)
      throw new SandboxError('sandbox_lost', 'the sandbox sent an endless event')
    yield* parsed.splice(0)
  }
}

/**
 * Yields the bytes of the stream. The silence timer runs only while this generator waits for bytes, not while the
 * consumer is busy.
 */
async function* readUntilSilent(
  connection: AgentHostConnection,
  after: number,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const silence = new AbortController()
  const listen = () => setTimeout(() => silence.abort(silent()), SILENCE_MS)
  let timer = listen()
  try {
    const response = await connection.expectOk(AGENT_HOST_ROUTES.events, {
      headers: { accept: 'text/event-stream', [LAST_EVENT_ID_HEADER]: String(after) },
      signal: AbortSignal.any([signal, silence.signal]),
    })
    for await (const chunk of response.body ?? []) {
      clearTimeout(timer)
      yield chunk as Uint8Array
      timer = listen()
    }
  } finally {
    clearTimeout(timer)
  }
}

const silent = () =>
  new SandboxError('sandbox_lost', `the sandbox sent nothing for ${SILENCE_MS} ms, not even a heartbeat`)

function parseEnvelope(data: string): HostEnvelope {
  try {
    return HostEnvelope.parse(JSON.parse(data))
  } catch (error) {
    throw malformed(
      'the sandbox sent an event that is malformed, or of a type that a sandbox may not send',
      error,
    )
  }
}
