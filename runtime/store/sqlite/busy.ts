import { delay } from '../../kit/deadline.ts'
import { SandboxError } from '../../kit/errors.ts'

const SQLITE_BUSY = 5
const RETRY_MS = 5

/** Tries until no other process holds the lock that is needed, without blocking this one's event loop. */
export async function retryWhileBusy<T>(deadlineMs: number, attempt: () => T): Promise<T> {
  const deadline = Date.now() + deadlineMs
  for (;;) {
    try {
      return attempt()
    } catch (error) {
      if (!isBusy(error)) throw error
      if (Date.now() >= deadline) throw keptLocked(error)
      await delay(RETRY_MS)
    }
  }
}

/** The lower byte of an extended result code is the plain one. */
const isBusy = (error: unknown) =>
  error instanceof Error && 'errcode' in error && (Number(error.errcode) & 0xff) === SQLITE_BUSY

const keptLocked = (cause: unknown) =>
  new SandboxError('unavailable', 'Another process keeps the store locked: stop it, or try again.', { cause })
