import { stripVTControlCharacters } from 'node:util'

const segments = new Intl.Segmenter('en', { granularity: 'grapheme' })
const WIDE = /\p{Extended_Pictographic}|[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\uff00-\uff60]/u

/** Number of terminal columns of a text. */
export function widthOf(text: string): number {
  let width = 0
  for (const { segment } of segments.segment(stripVTControlCharacters(text)))
    width += WIDE.test(segment) ? 2 : 1
  return width
}

/** Cuts a text into pieces of at most `width` columns, also within words. */
export function chop(word: string, width: number): string[] {
  const pieces: string[] = []
  let piece = ''
  for (const { segment } of segments.segment(word)) {
    if (widthOf(piece + segment) > width) {
      pieces.push(piece)
      piece = ''
    }
    piece += segment
  }
  return [...pieces, piece]
}

function wrapLine(line: string, width: number): string[] {
  if (widthOf(line) <= width) return [line]
  const lines: string[] = []
  let current = ''
  for (const word of line.split(/(?<=\s)(?=\S)/u).flatMap((word) => chop(word, width))) {
    if (current !== '' && widthOf(current + word.trimEnd()) > width) {
      lines.push(current.trimEnd())
      current = ''
    }
    current += word
  }
  return [...lines, current.trimEnd()]
}

/** Wraps a text to `width` columns, between words if possible. */
export function wrap(text: string, width: number): string[] {
  const columns = Math.max(width, 20)
  return text
    .replace(/\n+$/, '')
    .split('\n')
    .flatMap((line) => wrapLine(line, columns))
}

/** Cuts a text to one line of `width` columns; `…` marks the cut. */
export function clip(text: string, width: number): string {
  const line = text.replaceAll(/\s+/g, ' ').trim()
  if (widthOf(line) <= width) return line
  return `${chop(line, Math.max(width - 1, 1))[0] ?? ''}…`
}
