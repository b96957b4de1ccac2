import { Socket } from 'node:net'
import { bestEffort } from '../../kit/best-effort.ts'
import { deadline, delay, unlessAborted } from '../../kit/deadline.ts'
import type { Log } from '../../kit/log.ts'
import type { OnRemoteEvents } from '../engine.ts'
import { clientFor, type DatabasePlace } from './client.ts'

export const CHANNEL = 'agentweaver_events'
const CONNECT_TIMEOUT_MS = 10_000
const FIRST_RETRY_MS = 100
const MAX_RETRY_MS = 5_000
/**
 * A connection that a middlebox dropped without a word is noticed by asking on it. Until then, the streams of this process show
 * no event that another process wrote. That takes at most the time between two questions and the time to answer one.
 */
const HEARTBEAT_MS = 10_000
const ANSWER_MS = 10_000
/** A server that fell silent never confirms the end of a connection. */
const END_MS = 1_000

interface Listening {
  readonly place: DatabasePlace
  readonly log: Log
  /** Sender of this process's own notifications, which it has acted on already. */
  readonly self: string
  readonly onRemote: OnRemoteEvents
  /** @default 10 s */
  readonly heartbeatMs?: number
  /** @default 10 s */
  readonly answerMs?: number
}

/** Follows the notifications of other processes on a dedicated connection, and reconnects until it is closed. */
export function listen(listening: Listening): { close(): Promise<void> } {
  const stop = new AbortController()
  const finished = followForEver(listening, stop.signal)
  return {
    close: async () => {
      stop.abort()
      await finished
    },
  }
}

async function followForEver(listening: Listening, stop: AbortSignal): Promise<void> {
  let retryMs = FIRST_RETRY_MS
  while (!stop.aborted) {
    const since = Date.now()
    try {
      await follow(listening, stop)
    } catch (error) {
      if (stop.aborted) return
      listening.log.warn('the event listener lost its connection', { error })
    }
    retryMs = Date.now() - since > MAX_RETRY_MS ? FIRST_RETRY_MS : Math.min(retryMs * 2, MAX_RETRY_MS)
    await untilRetry(retryMs, stop)
  }
}

/** Follows one connection until it fails or is stopped. */
async function follow(
  { place, log, self, onRemote, heartbeatMs = HEARTBEAT_MS, answerMs = ANSWER_MS }: Listening,
  stop: AbortSignal,
) {
  const socket = new Socket()
  const client = new (clientFor(place))({
    stream: () => socket,
    connectionString: place.url,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    query_timeout: answerMs,
    keepAlive: true,
    application_name: 'agentweaver-listen',
  })
  const lost = new AbortController()
  client.on('error', (error) => lost.abort(error))
  client.on('end', () => lost.abort(new Error('the server closed the connection')))
  client.on('notification', ({ payload = '' }) => {
    const [sender, runId] = payload.split(' ', 2)
    if (sender !== self) onRemote(runId)
  })
  // A server that fell silent must not hold up the end of the service.
  const over = AbortSignal.any([stop, lost.signal])
  try {
    await unlessAborted(client.connect(), over)
    await unlessAborted(client.query(`LISTEN ${CHANNEL}`), over)
    for (; ; await delay(heartbeatMs, over)) {
      await unlessAborted(client.query('select 1'), over)
      // Events committed while there was no connection sent no notification, so listeners must read the store.
      onRemote()
    }
  } finally {
    const end = () => deadline('the end of the connection', END_MS, client.end())
    await bestEffort(log, 'close the connection of the event listener', end)
    socket.destroy()
  }
}

async function untilRetry(retryMs: number, stop: AbortSignal): Promise<void> {
  try {
    await delay(retryMs, stop)
  } catch (error) {
    if (!stop.aborted) throw error
  }
}
