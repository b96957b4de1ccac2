import type { Word } from './words.ts'

/** Output of a stage of a pipeline: a known text, a list of paths or numbers, or what nobody knows before. */
export type Feed = { readonly kind: 'text'; readonly text: string } | { readonly kind: 'plain' | 'unknown' }

interface Writer {
  readonly words: readonly Word[]
  readonly documents: readonly string[]
}

/** What `echo`, `printf` and a program that hands on its here-document write, where the text shows it. */
export function writtenBy({ words, documents }: Writer): string | undefined {
  const [name, ...args] = words.map(({ text }) => text)
  if (name === 'echo' || name === 'printf') {
    const texts = args.filter((arg) => name === 'printf' || !/^-[neE]+$/.test(arg))
    return texts.some((text) => /[\uE000-\uE002]/.test(text)) ? undefined : unescaped(texts)
  }
  return name === 'cat' && args.length === 0 && documents.length > 0 ? documents.join('\n') : undefined
}

/** The words of `echo` and `printf`, with line feeds for what `printf` and `echo -e` make of `\n`. */
const unescaped = (texts: readonly string[]) =>
  texts.map((text) => text.replace(/\\[n0]|%[sbq]/g, '\n')).join(' ')
