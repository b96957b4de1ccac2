import { StringDecoder } from 'node:string_decoder'
import type { TextFilter } from '../../tools/text-filter.ts'

/** Redacts a stream of text, including secrets that are split across chunks. */
export type StreamRedactor = { push(chunk: string): string; end(): string }

/** Decodes output as UTF-8 and redacts it, both across chunk boundaries. */
export function openRedactedText(redactor: StreamRedactor): TextFilter {
  const decoder = new StringDecoder('utf8')
  return {
    push: (bytes) => redactor.push(decoder.write(Buffer.from(bytes))),
    end: () => redactor.push(decoder.end()) + redactor.end(),
  }
}
