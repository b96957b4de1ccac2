/**
 * Waits for all promises. If one fails, it closes the shared resources, waits until the other promises have settled,
 * and rejects.
 */
export type Together = <T extends readonly unknown[]>(work: { [K in keyof T]: Promise<T[K]> }) => Promise<T>

/**
 * Returns a function whose calls, including nested ones, all reject with the first error. Later errors result from the
 * closing. They often reach the caller earlier, because a nested call waits for its other promises before it rejects.
 */
export function createTogether(close: () => Promise<void>): Together {
  let first: { readonly error: unknown } | undefined
  return async (work) => {
    try {
      return await Promise.all(work)
    } catch (error) {
      first ??= { error }
      await close()
      await Promise.allSettled(work)
      throw first.error
    }
  }
}
