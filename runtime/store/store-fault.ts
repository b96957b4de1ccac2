import { SandboxError } from '../kit/errors.ts'

/**
 * Primary result codes of SQLite (the lower byte of `errcode`) for conditions outside the statement: BUSY, LOCKED,
 * READONLY, IOERR, FULL, CANTOPEN.
 */
const SQLITE_FAULTS: ReadonlySet<number> = new Set([5, 6, 8, 10, 13, 14])

/**
 * SQLSTATE classes and codes of PostgreSQL for the same: connection exceptions, insufficient resources (disk full, too
 * many connections), operator intervention (shutdown, failover), system errors, a read-only server, deadlock and
 * serialization failures, a lock that was not available, a transaction that was idle for too long.
 */
const POSTGRES_FAULTS = /^(?:08...|53...|57...|58...|25006|25P03|40001|40P01|55P03)$/

const NETWORK_FAULTS: ReadonlySet<string> = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
  'ENOENT',
])

/** The library `pg` throws these without a code. */
const PG_MESSAGES =
  /^(?:Connection terminated|timeout (?:exceeded|expired)|Client has encountered a connection error|Query read timeout)/

/**
 * `unavailable` for an error that says that the database cannot be used now: unreachable, locked, full, read-only or
 * shutting down. The same work may succeed later. Every other error is returned as it is.
 */
export function toStoreFault(error: unknown): unknown {
  if (!(error instanceof Error) || error instanceof SandboxError) return error
  if (!isFault(error)) return error
  return new SandboxError('unavailable', `The store cannot be used: ${error.message}`, { cause: error })
}

/** Returns true for an `unavailable` error, from `toStoreFault` or any other source. Such errors are temporary. */
export const isStoreFault = (error: unknown): error is SandboxError =>
  error instanceof SandboxError && error.code === 'unavailable'

function isFault(error: Error & { readonly errcode?: unknown; readonly code?: unknown }): boolean {
  if (typeof error.errcode === 'number') return SQLITE_FAULTS.has(error.errcode & 0xff)
  if (error instanceof AggregateError) return error.errors.some((one) => one instanceof Error && isFault(one))
  if (typeof error.code === 'string')
    return NETWORK_FAULTS.has(error.code) || POSTGRES_FAULTS.test(error.code)
  return PG_MESSAGES.test(error.message)
}
