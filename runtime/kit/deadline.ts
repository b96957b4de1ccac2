import { SandboxError } from './errors.ts'

/** Combines the caller's signal with a timeout. */
export function withTimeout(ms: number, signal?: AbortSignal): AbortSignal {
  const timeout = AbortSignal.timeout(ms)
  return signal ? AbortSignal.any([signal, timeout]) : timeout
}

/** Resolves after `ms`; rejects with the signal's reason when it aborts first. */
export function delay(ms: number, signal?: AbortSignal): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  if (signal?.aborted) return Promise.reject(signal.reason)
  const onAbort = () => {
    clearTimeout(timer)
    reject(signal?.reason)
  }
  const timer = setTimeout(() => {
    signal?.removeEventListener('abort', onAbort)
    resolve()
  }, ms)
  signal?.addEventListener('abort', onAbort, { once: true })
  return promise
}

/** Resolves with `work`; rejects with the signal's reason if it aborts first. Does not stop the work. */
export async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>()
  const onAbort = () => reject(signal.reason)
  signal.addEventListener('abort', onAbort, { once: true })
  if (signal.aborted) onAbort()
  try {
    return await Promise.race([work, promise])
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}

/** Resolves with `work`; throws `deadline_exceeded` naming `what` after `ms`. Does not stop the work. */
export async function deadline<T>(what: string, ms: number, work: Promise<T>): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(
    () => reject(new SandboxError('deadline_exceeded', `${what} took longer than ${ms} ms`)),
    ms,
  )
  try {
    return await Promise.race([work, promise])
  } finally {
    clearTimeout(timer)
  }
}
