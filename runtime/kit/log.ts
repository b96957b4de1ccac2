import { type Logger, pino } from 'pino'

export type LogLevel = 'debug' | 'info' | 'warn' | 'error'
type LogFields = Record<string, unknown>

/** A structured logger. Fields are plain data. A secret is never a field. */
export interface Log {
  readonly debug: (message: string, fields?: LogFields) => void
  readonly info: (message: string, fields?: LogFields) => void
  readonly warn: (message: string, fields?: LogFields) => void
  readonly error: (message: string, fields?: LogFields) => void
  readonly child: (fields: LogFields) => Log
}

export type LogOptions = {
  readonly level: LogLevel | 'silent'
  /** Receives each line with its line feed. It must write synchronously, because the process may exit right after. */
  readonly write: (line: string) => void
  /** Removes secrets from the text of a complete line. */
  readonly redact?: (line: string) => string
}

/** A chain of causes can be a cycle. */
const MAX_CAUSES = 10

/** Creates a logger that writes JSON Lines: `level`, `at`, the fields, and `message`. */
export function createLog({ level, write, redact }: LogOptions): Log {
  return toLog(
    pino(
      {
        level,
        base: null,
        messageKey: 'message',
        timestamp: () => `,"at":"${new Date().toISOString()}"`,
        formatters: { level: (label) => ({ level: label }), log: plainFields },
        ...(redact && { hooks: { streamWrite: redact } }),
      },
      { write },
    ),
  )
}

const toLog = (logger: Logger): Log => ({
  debug: (message, fields = {}) => logger.debug(fields, message),
  info: (message, fields = {}) => logger.info(fields, message),
  warn: (message, fields = {}) => logger.warn(fields, message),
  error: (message, fields = {}) => logger.error(fields, message),
  child: (fields) => toLog(logger.child(fields)),
})

const plainFields = (fields: LogFields): LogFields =>
  Object.fromEntries(Object.entries(fields).map(([key, value]) => [key, plain(value)]))

const plain = (value: unknown, causes = MAX_CAUSES): unknown =>
  value instanceof Error ? plainError(value, causes) : value

/**
 * Converts an error to plain data. pino's own serializer copies every property, and pg adds its whole client with the
 * password of the connection. Only properties that are not objects are kept.
 */
function plainError(error: Error, causes: number): LogFields {
  const { name, message, stack, cause } = error
  if (causes === 0) return { name, message }
  const details = Object.entries(error).filter(([, detail]) => typeof detail !== 'object')
  const errors =
    error instanceof AggregateError ? error.errors.map((inner) => plain(inner, causes - 1)) : undefined
  return { ...Object.fromEntries(details), errors, name, message, stack, cause: plain(cause, causes - 1) }
}

export const silentLog: Log = createLog({ level: 'silent', write: () => undefined })
