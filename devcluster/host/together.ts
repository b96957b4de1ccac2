/** Waits for all. When one fails it closes what they work on, waits until the others have ended too, and fails. */
export type Together = <T extends readonly unknown[]>(work: { [K in keyof T]: Promise<T[K]> }) => Promise<T>

/**
 * Everything that one of these waits for, at whatever depth, fails for one reason: the first. What fails after it does
 * so because of the closing, and is often heard of sooner, since an inner one waits for its others before it fails.
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
