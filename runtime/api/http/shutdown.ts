import type { FastifyInstance } from 'fastify'
import { SandboxError } from '../../kit/errors.ts'
import type { RunService } from '../runs/service.ts'
import type { OpenStreams } from './sse.ts'

/** Time for readers to receive the last events of runs that ended with the service. */
const STREAMS_MS = 1000
/** Time for open requests to finish. */
const REQUESTS_MS = 10_000

/**
 * Closes in order: first the service, whose last events still reach the readers; then the remaining streams; then open
 * requests. `forceCloseConnections` cuts idle connections.
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
