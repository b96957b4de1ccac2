/**
 * Turns a stream of bytes into text, piece by piece. The place of the redactor: output is filtered before it is
 * cut to size, because half of a secret at a cut is no longer recognised as one.
 */
export interface TextFilter {
  push(bytes: Uint8Array): string
  /** What was held back. */
  end(): string
}

/** UTF-8 with replacement characters, and nothing taken out. */
export function openPlainText(): TextFilter {
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  return {
    push: (bytes) => decoder.decode(bytes, { stream: true }),
    end: () => decoder.decode(),
  }
}
