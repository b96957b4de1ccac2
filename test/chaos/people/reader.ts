import { createParser, type EventSourceMessage } from 'eventsource-parser'
import { delay } from '../../../runtime/kit/deadline.ts'
import type { ReaderPlan } from '../plan/plan.ts'
import { createRandom } from '../plan/random.ts'
import type { Replica } from '../world/replica.ts'
import type { Http } from './http.ts'

/** One connection of a reader: its requested beginning, and the unchanged text that it received. */
export type Connection = {
  readonly replica: string
  readonly after: number
  readonly received: { readonly id: string; readonly data: string }[]
  status: number
}

export type ReaderOptions = {
  readonly http: Http
  readonly replicas: readonly Replica[]
  readonly path: string
  readonly plan: ReaderPlan
  readonly onEvent: (data: string) => void
  readonly signal: AbortSignal
}

export type Reader = ReturnType<typeof startReader>

const RECONNECT_MS = 150
/** A connection without heartbeats is broken. */
const SILENCE_MS = 35_000

/** Reads the stream of a run to its end, and connects again after each break, as `EventSource` does. */
export function startReader({ http, replicas, path, plan, onEvent, signal }: ReaderOptions) {
  const random = createRandom(plan.seed)
  const connections: Connection[] = []
  const cuts = [...plan.cutAfter]
  let cursor = 0
  let isDone = false
  let current: AbortController | undefined

  async function connect(): Promise<void> {
    const replica = random.pick(replicas)
    const connection: Connection = { replica: replica.name, after: cursor, received: [], status: 0 }
    const stop = new AbortController()
    current = stop
    const both = AbortSignal.any([stop.signal, signal])
    const response = await http.stream(replica, path, { after: cursor, signal: both })
    if (!response) return
    connection.status = response.status
    connections.push(connection)
    if (response.status === 204) isDone = true
    if (response.status !== 200 || !response.body) return
    await take(response.body, { connection, stop, cutAfter: cuts.shift() })
  }

  type Taking = {
    readonly connection: Connection
    readonly stop: AbortController
    readonly cutAfter: number | undefined
  }
  async function take(body: AsyncIterable<Uint8Array>, { connection, stop, cutAfter }: Taking) {
    const silence = setTimeout(() => stop.abort(), SILENCE_MS)
    try {
      for await (const message of messagesIn(body, () => silence.refresh())) {
        receive(connection, message)
        if (cutAfter !== undefined && connection.received.length > cutAfter) break
      }
    } catch {
      // The next connection begins after the last event of this one.
    } finally {
      clearTimeout(silence)
      stop.abort()
    }
  }

  function receive({ received }: Connection, { id = '', data, event }: EventSourceMessage): void {
    received.push({ id, data })
    cursor = Number(id)
    if (event === 'done') isDone = true
    onEvent(data)
  }

  const finished = (async () => {
    while (!isDone && !signal.aborted) {
      await connect()
      if (!isDone) await delay(RECONNECT_MS, signal).catch(() => undefined)
    }
  })()

  return {
    connections,
    finished,
    isDone: () => isDone,
    cut: () => current?.abort(),
  }
}

async function* messagesIn(body: AsyncIterable<Uint8Array>, onData: () => void) {
  const messages: EventSourceMessage[] = []
  const parser = createParser({ onEvent: (message) => messages.push(message) })
  const decoder = new TextDecoder()
  for await (const chunk of body) {
    onData()
    parser.feed(decoder.decode(chunk, { stream: true }))
    yield* messages.splice(0)
  }
}
