import type { FastifyInstance } from 'fastify'
import { SandboxError } from '../../kit/errors.ts'
import type { RunService } from '../runs/service.ts'
import type { OpenStreams } from './sse.ts'

/** How long readers have to take the last events of runs that ended with the service. */
const STREAMS_MS = 1000
/** How long requests have to be answered. */
const REQUESTS_MS = 10_000

/**
 * Closing the app closes in order: the service, whose last events still reach their readers; the streams that are
 * left; the requests that are being answered. Connections without one are cut by `forceCloseConnections`.
 */
export function closeInOrder(app: FastifyInstance, service: RunService, streams: OpenStreams): void {
  const requests = new RequestsUnderWay()
  let isClosing = false
  app.addHook('onRequest', async (_request, reply) => {
    const end = requests.begin()
    reply.raw.once('close', end)
    if (isClosing) throw new SandboxError('unavailable', 'The service is stopping.')
  })
  app.addHook('preClose', async () => {
    isClosing = true
    await service.close()
    await requests.untilNone(STREAMS_MS)
    streams.close()
    await requests.untilNone(REQUESTS_MS)
  })
}

class RequestsUnderWay {
  #count = 0
  #onNone: (() => void) | undefined

  begin(): () => void {
    this.#count++
    return () => {
      this.#count--
      if (this.#count === 0) this.#onNone?.()
    }
  }

  async untilNone(atMostMs: number): Promise<void> {
    if (this.#count === 0) return
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#onNone = resolve
    const timer = setTimeout(resolve, atMostMs)
    await promise
    clearTimeout(timer)
  }
}
