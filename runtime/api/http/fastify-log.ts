import type { FastifyBaseLogger } from 'fastify'
import type { Log } from '../../kit/log.ts'

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
    // Fastify reports each request and each listener at this level; the service's own lines say it better.
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
