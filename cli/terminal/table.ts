import type { Paint } from './paint.ts'
import { clip, widthOf } from './wrap.ts'

type Column<T> = {
  readonly title: string
  readonly value: (row: T) => string
  readonly paint?: (text: string, row: T) => string
}

const GAP = 2

/** Rows in aligned columns below dim titles. The last column is cut at the terminal's width. */
export function table<T>(
  rows: readonly T[],
  columns: readonly Column<T>[],
  look: { paint: Paint; width: number },
): string[] {
  const cells = rows.map((row) => columns.map((column) => column.value(row)))
  const widths = columns.map((column, index) =>
    Math.max(widthOf(column.title), ...cells.map((cell) => widthOf(cell[index] ?? ''))),
  )
  const before = widths.slice(0, -1).reduce((sum, width) => sum + width + GAP, 0)
  const last = columns.length - 1
  const room = Math.max(look.width - before, 20)
  const shorten = (text: string, index: number) => (index === last ? clip(text, room) : text)
  const pad = (text: string, index: number) =>
    index === last ? '' : ' '.repeat((widths[index] ?? 0) - widthOf(text) + GAP)
  const head = columns.map(({ title }, index) => look.paint.dim(title) + pad(title, index)).join('')
  const body = rows.map((row, at) =>
    columns
      .map(({ paint }, index) => {
        const text = shorten(cells[at]?.[index] ?? '', index)
        return (paint ? paint(text, row) : text) + pad(text, index)
      })
      .join('')
      .trimEnd(),
  )
  return [head.trimEnd(), ...body]
}

/** One line per fact: a dim name, then the value. */
export function facts(entries: readonly (readonly [string, string])[], paint: Paint): string[] {
  const width = Math.max(0, ...entries.map(([name]) => widthOf(name)))
  return entries.map(([name, value]) => `${paint.dim(name.padEnd(width))}  ${value}`)
}
