/**
 * Turns a stream of bytes into text. The redactor implements this: output is filtered before it is truncated,
 * because a truncated secret is no longer recognised.
 */
export interface TextFilter {
  push(bytes: Uint8Array): string
  /** Returns the text that was held back. */
  end(): string
}

/** Decodes UTF-8 with replacement characters and filters nothing. */
export function openPlainText(): TextFilter {
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  return {
    push: (bytes) => decoder.decode(bytes, { stream: true }),
    end: () => decoder.decode(),
  }
}
