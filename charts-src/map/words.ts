import type { Box } from './map-layout.ts'

/** Font size of each style, and the width of a character in a wide font. A narrower font leaves some space. */
export const STYLES = {
  head: { size: 18, character: 11.6 },
  name: { size: 13, character: 8.2 },
  say: { size: 12, character: 7 },
  port: { size: 11.5, character: 6.8 },
} as const
export type WordStyle = keyof typeof STYLES

/** One line of text. `box` is its maximum extent. */
export interface Words {
  readonly text: string
  readonly style: WordStyle
  readonly box: Box
  /** The surrounding box, which the text must not leave. */
  readonly frame: Box
}

export interface Paragraph {
  readonly rows: readonly string[]
  readonly styles: (index: number) => WordStyle
  readonly x: number
  readonly y: number
  readonly frame: Box
}

export const ROW_HEIGHT = 18

/** Places rows of text below each other. `y` is the top of the first row. */
export function wordsOf({ rows, styles, x, y, frame }: Paragraph): Words[] {
  return rows.map((text, index) => {
    const style = styles(index)
    const width = text.length * STYLES[style].character
    return { text, style, box: { x, y: y + index * ROW_HEIGHT, width, height: ROW_HEIGHT - 2 }, frame }
  })
}

/** `words` breaks only at spaces; `names` also breaks long names at dots and hyphens. */
const BREAKS = { words: /(?<= )/, names: /(?<=[ .-])/ } as const

interface Room {
  readonly width: number
  readonly style: WordStyle
  readonly at: keyof typeof BREAKS
}

export function wrap(text: string, { width, style, at }: Room): string[] {
  const room = Math.floor(width / STYLES[style].character)
  const rows: string[] = []
  for (const piece of text.split(BREAKS[at])) {
    const last = rows.at(-1)
    if (last !== undefined && (last + piece).trimEnd().length <= room) rows[rows.length - 1] = last + piece
    else rows.push(piece)
  }
  return rows.map((row) => row.trimEnd())
}
