import type { LineReader } from './line-reader.ts'
import type { FileChange, Hunk, HunkLine } from './patch-model.ts'

export const BEGIN = '*** Begin Patch'
const END = '*** End Patch'
const HEADERS = { add: '*** Add File: ', delete: '*** Delete File: ', update: '*** Update File: ' } as const
const MOVE = '*** Move to: '
const END_OF_FILE = '*** End of File'
const KINDS = { ' ': 'context', '-': 'remove', '+': 'add' } as const

/** Parses the form between `*** Begin Patch` and `*** End Patch`. */
export function parseBeginPatch(reader: LineReader): FileChange[] {
  reader.take()
  const changes: FileChange[] = []
  while (reader.next?.trimEnd() !== END) {
    if (reader.next === undefined) throw reader.problemAhead(`"${END}" is missing`)
    changes.push(parseFile(reader))
  }
  reader.take()
  reader.skipBlank()
  if (reader.next !== undefined) throw reader.problemAhead(`nothing may follow "${END}"`)
  return changes
}

function parseFile(reader: LineReader): FileChange {
  const line = reader.take()
  const pathAfter = (header: string) => {
    const path = line.slice(header.length).trim()
    if (path === '') throw reader.problem('a file header without a path')
    return path
  }
  if (line.startsWith(HEADERS.add)) return parseAdded(reader, pathAfter(HEADERS.add))
  if (line.startsWith(HEADERS.delete)) return { kind: 'delete', path: pathAfter(HEADERS.delete), hunks: [] }
  if (line.startsWith(HEADERS.update)) return parseUpdated(reader, pathAfter(HEADERS.update))
  throw reader.problem('expected "*** Add File: ", "*** Update File: " or "*** Delete File: "')
}

function parseAdded(reader: LineReader, path: string): FileChange {
  let content = ''
  for (let line = addedLine(reader); line !== undefined; line = addedLine(reader)) content += `${line}\n`
  if (reader.next !== undefined && !reader.next.startsWith('*** ')) {
    throw reader.problemAhead('each line of an added file begins with "+"')
  }
  return { kind: 'add', path, content }
}

const addedLine = (reader: LineReader) => reader.takeIf((line) => line.startsWith('+'))?.slice(1)

function parseUpdated(reader: LineReader, path: string): FileChange {
  const movedTo = reader
    .takeIf((line) => line.startsWith(MOVE))
    ?.slice(MOVE.length)
    .trim()
  if (movedTo === '') throw reader.problem('"*** Move to: " without a path')
  const hunks: Hunk[] = []
  while (reader.next !== undefined && !isHeader(reader.next))
    hunks.push(parseHunk(reader, hunks.length === 0))
  if (hunks.length === 0 && movedTo === undefined) throw reader.problemAhead(`no change is given for ${path}`)
  return { kind: 'update', path, hunks, ...(movedTo === undefined ? {} : { movedTo }) }
}

const isHeader = (line: string) =>
  line.trimEnd() === END || Object.values(HEADERS).some((header) => line.startsWith(header))

function parseHunk(reader: LineReader, isFirst: boolean): Hunk {
  const anchors: string[] = []
  let marks = 0
  for (let mark = hunkMark(reader); mark !== undefined; mark = hunkMark(reader)) {
    marks += 1
    if (mark.trim() !== '') anchors.push(mark.trim())
  }
  if (marks === 0 && !isFirst) throw reader.problemAhead('expected "@@"')
  const lines: HunkLine[] = []
  for (let line = hunkLine(reader); line !== undefined; line = hunkLine(reader)) lines.push(line)
  if (lines.length === 0) throw reader.problemAhead('expected a line that begins with " ", "-" or "+"')
  const atEnd = reader.takeIf((line) => line.trimEnd() === END_OF_FILE) !== undefined
  return { oldStart: undefined, anchors, atEnd, lines }
}

const hunkMark = (reader: LineReader) =>
  reader.takeIf((line) => line === '@@' || line.startsWith('@@ '))?.slice(2)

/** An empty line is an empty context line: editors and models strip the blank that should be there. */
function hunkLine(reader: LineReader): HunkLine | undefined {
  const line = reader.takeIf((text) => text === '' || text[0] === ' ' || text[0] === '-' || text[0] === '+')
  if (line === undefined) return undefined
  const kind = KINDS[(line[0] ?? ' ') as keyof typeof KINDS]
  return { kind, text: line.slice(1).replace(/\r$/, ''), noNewline: false }
}
