import { type FastifyBaseLogger, type FastifyRequest, LogController } from 'fastify'
import { errnoOf } from '../../kit/errors.ts'
import type { Log } from '../../kit/log.ts'

/** Turns off Fastify's own lines per request, because `logRequests` writes them. Responses that fail are still logged. */
export class ResponseErrorsOnly extends LogController {
  readonly #log: Log

  constructor(log: Log) {
    super({ disableRequestLogging: true })
    this.#log = log
  }

  override streamError(error: unknown, request: FastifyRequest): void {
    // The client closed the connection, which is how it stops following a stream.
    if (errnoOf(error) === 'ERR_STREAM_PREMATURE_CLOSE') return
    this.#log.warn('a response could not be sent completely', {
      requestId: request.id,
      route: request.routeOptions.url,
      error,
    })
  }
}

/** Adapts our log to Fastify, which logs broken connections and failed hooks. */
export function toFastifyLog(log: Log): FastifyBaseLogger {
  const at =
    (level: 'debug' | 'info' | 'warn' | 'error') =>
    (subject: unknown, message: string = level) => {
      if (typeof subject === 'string') log[level](subject)
      else log[level](message, fieldsOf(subject))
    }
  const error = at('error')
  const debug = at('debug')
  return {
    level: 'debug',
    fatal: error,
    error,
    warn: at('warn'),
    // Fastify logs its address at this level. The service prints it itself.
    info: debug,
    debug,
    trace: () => undefined,
    silent: () => undefined,
    child: () => toFastifyLog(log),
  }
}

/** Logs only the id of a request, because its headers contain the API key. */
function fieldsOf(subject: unknown): Record<string, unknown> {
  if (typeof subject !== 'object' || subject === null) return { subject }
  if (subject instanceof Error) return { error: subject }
  return {
    ...('err' in subject && { error: subject.err }),
    ...('reqId' in subject && { requestId: subject.reqId }),
  }
}
