/** Waits for all promises. If one rejects, calls `close`, waits until the others have settled, and rejects. */
export type Together = <T extends readonly unknown[]>(work: { [K in keyof T]: Promise<T[K]> }) => Promise<T>

/**
 * All calls of one instance, also nested ones, reject with the first error. Later errors are only effects of `close`,
 * but can reach a caller earlier, because an inner call waits for its other promises before it rejects.
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
