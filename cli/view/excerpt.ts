import type { Paint } from '../terminal/paint.ts'
import { visible } from '../terminal/visible.ts'
import { chop } from '../terminal/wrap.ts'

/** Rows of text in an approval question. Together with the question they fit a terminal of 40 rows. */
const SHOWN_ROWS = 24
const INDENT = '    '

type Look = {
  readonly paint: Paint
  readonly width: number
  /** The command that prints the whole text. */
  readonly all: string
}
type Row = { readonly number: string; readonly text: string }

/**
 * Text of an approval question. Multiple lines are numbered, so that a wrapped line does not look like two lines and no
 * line can pass for text of this program. Long text is cut to its beginning and end, and its size is shown, because the
 * dangerous part may be in the middle.
 */
export function excerpt(text: string, { paint, width, all }: Look): string[] {
  const lines = visible(text).split('\n')
  const digits = String(lines.length).length
  const room = Math.max(width - INDENT.length - digits - 2, 20)
  const first = rowsOf(lines.entries(), room, 'first')
  const show = (rows: readonly Row[]) =>
    rows.map((row) => `${INDENT}${paint.dim(row.number.padStart(digits))}  ${paint.yellow(row.text)}`)
  if (first.length === 1) return first.map((row) => INDENT + paint.yellow(row.text))
  const size = `${count([...text].length, 'character')} in ${count(lines.length, 'line')}`
  if (first.length <= SHOWN_ROWS) return [paint.dim(`${INDENT}(${size})`), ...show(first)]
  const last = rowsOf([...lines.entries()].reverse(), room, 'last')
  return [
    paint.bold(`${INDENT}The text is long: ${size}. Its beginning and its end:`),
    ...show(first.slice(0, SHOWN_ROWS / 2)),
    paint.bold(`${INDENT}… not shown here. Read all of it before you allow it: ${all}`),
    ...show(last.slice(-SHOWN_ROWS / 2)),
  ]
}

const count = (number: number, one: string) =>
  `${number.toLocaleString('en')} ${number === 1 ? one : `${one}s`}`

/** Rows from one end of a text, with at least one more row than is shown. Assumes at most 4 code units per column. */
function rowsOf(
  entries: Iterable<readonly [index: number, line: string]>,
  room: number,
  end: 'first' | 'last',
): Row[] {
  const most = room * 4 * (SHOWN_ROWS + 1)
  let rows: Row[] = []
  for (const [index, line] of entries) {
    const near = end === 'first' ? line.slice(0, most) : line.slice(-most)
    const isWhole = end === 'first' || near.length === line.length
    const pieces = chop(near.replaceAll('\t', INDENT), room).map((text, at) => ({
      number: at === 0 && isWhole ? String(index + 1) : '',
      text,
    }))
    rows = end === 'first' ? [...rows, ...pieces] : [...pieces, ...rows]
    if (rows.length > SHOWN_ROWS) return rows
  }
  return rows
}
