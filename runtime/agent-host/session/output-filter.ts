import { StringDecoder } from 'node:string_decoder'
import type { TextFilter } from '../../tools/text-filter.ts'

/** Redacts text whose pieces may cut a secret in two. */
export type StreamRedactor = { push(chunk: string): string; end(): string }

/** A stream's way out of the sandbox: decoded as UTF-8 across chunks, then redacted across chunks. */
export function openRedactedText(redactor: StreamRedactor): TextFilter {
  const decoder = new StringDecoder('utf8')
  return {
    push: (bytes) => redactor.push(decoder.write(Buffer.from(bytes))),
    end: () => redactor.push(decoder.end()) + redactor.end(),
  }
}
