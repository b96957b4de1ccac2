import type { Paint, Style } from '../terminal/paint.ts'
import { widthOf, wrap } from '../terminal/wrap.ts'

export type Look = { readonly paint: Paint; readonly width: number }
type Label = string | readonly [name: string, tone: Style]

/** Width of the label column. */
export const GUTTER = 11

/** A line with a label in the left column. Long text is wrapped and indented. */
export function row(look: Look, label: Label, text: string): string[] {
  const [name, tone] = typeof label === 'string' ? ([label, 'dim'] as const) : label
  const margin = ' '.repeat(Math.max(GUTTER - widthOf(name) - 2, 0))
  return wrap(text, look.width - GUTTER).map((line, index) =>
    index === 0 ? `${margin}${look.paint[tone](name)}  ${line}` : ' '.repeat(GUTTER) + line,
  )
}

/** Indented lines below a row: the output of a command, or a change. */
export function quote(look: Look, lines: readonly string[], bar = '│'): string[] {
  return lines
    .flatMap((line) => wrap(line.replaceAll('\t', '    '), look.width - GUTTER - 2))
    .map((line) => `${' '.repeat(GUTTER - 2)}${look.paint.dim(bar)} ${line}`)
}

export function head(lines: readonly string[], limit: number): string[] {
  if (lines.length <= limit) return [...lines]
  return [...lines.slice(0, limit), `… ${lines.length - limit} more lines`]
}
