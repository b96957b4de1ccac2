export type LogLevel = 'debug' | 'info' | 'warn' | 'error'
type LogFields = Record<string, unknown>

/** A structured logger. Fields are plain data; a secret is never one of them. */
export interface Log {
  readonly debug: (message: string, fields?: LogFields) => void
  readonly info: (message: string, fields?: LogFields) => void
  readonly warn: (message: string, fields?: LogFields) => void
  readonly error: (message: string, fields?: LogFields) => void
  readonly child: (fields: LogFields) => Log
}

const SEVERITY = { debug: 10, info: 20, warn: 30, error: 40, silent: 100 } as const

export type LogOptions = {
  readonly level: LogLevel | 'silent'
  readonly write: (line: string) => void
  /** Passes every line before it is written: the redactor's place. */
  readonly redact?: (line: string) => string
}

/**
 * An error as plain data. Of the fields that libraries add, only plain values are kept: pg adds its whole client, with the
 * connection's settings.
 */
function plain(_key: string, value: unknown): unknown {
  if (!(value instanceof Error)) return value
  const { name, message, stack, cause } = value
  const details = Object.entries(value).filter(([, detail]) => typeof detail !== 'object')
  const errors = value instanceof AggregateError ? { errors: value.errors } : {}
  return { ...Object.fromEntries(details), ...errors, name, message, stack, cause }
}

/** A logger that writes JSON Lines. */
export function createLog(options: LogOptions, fields: LogFields = {}): Log {
  const at = (level: LogLevel) => (message: string, more?: LogFields) => {
    if (SEVERITY[level] < SEVERITY[options.level]) return
    const line = JSON.stringify({ at: new Date().toISOString(), level, message, ...fields, ...more }, plain)
    options.write(options.redact ? options.redact(line) : line)
  }
  return {
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    child: (more) => createLog(options, { ...fields, ...more }),
  }
}

export const silentLog: Log = createLog({ level: 'silent', write: () => undefined })
