import pg from 'pg'
import { delay } from '../../kit/deadline.ts'
import type { Log } from '../../kit/log.ts'
import type { OnRemoteEvents } from '../engine.ts'

export const CHANNEL = 'agentweaver_events'
const FIRST_RETRY_MS = 100
const MAX_RETRY_MS = 5_000

interface Listening {
  readonly url: string
  readonly log: Log
  /** Sender of this process's own notifications, which it has acted on already. */
  readonly self: string
  readonly onRemote: OnRemoteEvents
}

/** Follows the notifications of other processes on a connection of its own, and reconnects for ever. */
export function listen({ url, log, self, onRemote }: Listening): { close(): Promise<void> } {
  const stop = new AbortController()

  const follow = async (): Promise<void> => {
    const client = new pg.Client({
      connectionString: url,
      keepAlive: true,
      application_name: 'agentweaver-listen',
    })
    const { promise: ended, resolve } = Promise.withResolvers<void>()
    client.on('error', (error) => log.warn('the event listener lost its connection', { error }))
    client.on('end', resolve)
    client.on('notification', ({ payload = '' }) => {
      const [sender, runId] = payload.split(' ', 2)
      if (sender !== self) onRemote(runId)
    })
    const leave = () => void client.end().catch(resolve)
    try {
      await client.connect()
      await client.query(`LISTEN ${CHANNEL}`)
      stop.signal.addEventListener('abort', leave, { once: true })
      if (stop.signal.aborted) leave()
      // Whatever was committed while nobody listened is found by looking.
      onRemote()
      await ended
    } finally {
      stop.signal.removeEventListener('abort', leave)
      await client.end().catch(() => undefined)
    }
  }

  const followForEver = async (): Promise<void> => {
    for (let retryMs = FIRST_RETRY_MS; !stop.signal.aborted; retryMs = Math.min(retryMs * 2, MAX_RETRY_MS)) {
      const since = Date.now()
      await follow().catch((error) => log.warn('the event listener could not connect', { error }))
      if (Date.now() - since > MAX_RETRY_MS) retryMs = FIRST_RETRY_MS
      await delay(retryMs, stop.signal).catch(() => undefined)
    }
  }

  const finished = followForEver()
  return {
    close: async () => {
      stop.abort()
      await finished
    },
  }
}
