import type { LineReader } from './line-reader.ts'
import type { Hunk, HunkLine } from './patch-model.ts'

const HEADER = /^@@ -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))? @@/
const KINDS = { ' ': 'context', '-': 'remove', '+': 'add' } as const

/** Parses the hunks of one file. The line counts of each header must match the lines of the hunk. */
export function parseHunks(reader: LineReader): Hunk[] {
  const hunks: Hunk[] = []
  while (reader.next?.startsWith('@@')) hunks.push(parseHunk(reader))
  return hunks
}

function parseHunk(reader: LineReader): Hunk {
  const match = HEADER.exec(reader.next ?? '')
  if (!match) throw reader.problemAhead('a hunk begins with "@@ -start,count +start,count @@"')
  const header = reader.take()
  const lines = takeLines(reader, header, { old: countOf(match[2]), new: countOf(match[3]) })
  if (reader.next !== undefined && /^[ +]|^-(?!-- )/.test(reader.next)) throw countProblem(reader, header)
  return { oldStart: oldStartOf(match), anchors: [], atEnd: false, lines }
}

const countOf = (text: string | undefined) => (text === undefined ? 1 : Number(text))

/** As many lines as the header counts, neither more nor fewer. */
function takeLines(reader: LineReader, header: string, left: { old: number; new: number }): HunkLine[] {
  const lines: HunkLine[] = []
  while (left.old > 0 || left.new > 0) {
    const line = hunkLine(reader, header)
    if (line.kind !== 'add') left.old -= 1
    if (line.kind !== 'remove') left.new -= 1
    if (left.old < 0 || left.new < 0) throw countProblem(reader, header)
    lines.push(line)
  }
  return lines
}

/** Without old lines, the header names the line *before* the insertion. */
const oldStartOf = (match: RegExpExecArray) => Number(match[1]) + (match[2] === '0' ? 1 : 0)

const countProblem = (reader: LineReader, header: string) =>
  reader.problem(`the counts in "${header}" do not match its lines`)

function hunkLine(reader: LineReader, header: string): HunkLine {
  if (reader.next === undefined) throw countProblem(reader, header)
  const line = reader.take()
  // An empty line is an empty context line whose blank was stripped on the way.
  const kind = KINDS[(line[0] ?? ' ') as keyof typeof KINDS]
  if (kind === undefined) throw countProblem(reader, header)
  const noNewline = reader.takeIf((next) => next.startsWith('\\ ')) !== undefined
  return { kind, text: line.slice(1), noNewline }
}
