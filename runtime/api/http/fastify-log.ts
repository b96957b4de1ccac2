import { type FastifyBaseLogger, type FastifyRequest, LogController } from 'fastify'
import { errnoOf } from '../../kit/errors.ts'
import type { Log } from '../../kit/log.ts'

/** Fastify's lines about each request are off, ours say more; answers that broke off are told all the same. */
export class BrokenAnswersOnly extends LogController {
  readonly #log: Log

  constructor(log: Log) {
    super({ disableRequestLogging: true })
    this.#log = log
  }

  override streamError(error: unknown, request: FastifyRequest): void {
    // The reader left: the ordinary end of a stream that is followed.
    if (errnoOf(error) === 'ERR_STREAM_PREMATURE_CLOSE') return
    this.#log.warn('a response was cut off', {
      requestId: request.id,
      route: request.routeOptions.url,
      error,
    })
  }
}

/** Our log in the form in which Fastify speaks of broken connections and failed hooks. */
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
    // At this level Fastify says where it listens, which the service tells in its own words.
    info: debug,
    debug,
    trace: () => undefined,
    silent: () => undefined,
    child: () => toFastifyLog(log),
  }
}

/** Of a request only its id: its headers carry the key. */
function fieldsOf(subject: unknown): Record<string, unknown> {
  if (typeof subject !== 'object' || subject === null) return { subject }
  if (subject instanceof Error) return { error: subject }
  return {
    ...('err' in subject && { error: subject.err }),
    ...('reqId' in subject && { requestId: subject.reqId }),
  }
}
