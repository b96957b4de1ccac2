import { TOOL_ARGUMENTS } from '../../contracts/tools.ts'
import { failure, success } from './outcome.ts'
import { defineTool, type Tool, type ToolDeps } from './tool.ts'
import { binary, isBinary, refusal, WorkspaceFiles } from './workspace-files.ts'

/** Limits of one result, about 25,000 tokens. */
export const READ_LIMITS = { maxLines: 2000, maxLineCharacters: 2000, maxCharacters: 100_000 } as const

/** `read_file` returns lines with their number and a tab, the format of `cat -n`, which models know. */
export const readFileTool = ({ toolbox, openFilter }: ToolDeps): Tool => {
  const files = new WorkspaceFiles(toolbox)
  return defineTool({
    name: 'read_file',
    description: [
      'Read a text file of the workspace. Each line of the result is its number, a tab and its text;',
      'number and tab are not part of the file.',
      `At most ${READ_LIMITS.maxLines} lines at once: use start_line and end_line for the rest of a long file.`,
    ].join(' '),
    schema: TOOL_ARGUMENTS.read_file,
    run: async ({ path, start_line: first = 1, end_line: last }, { signal }) => {
      if (last !== undefined && last < first) return failure('invalid_range', 'end_line is before start_line')
      const read = await files.read(path, signal)
      if (!read.ok) return refusal(read)
      if (isBinary(read.bytes)) return refusal(binary(path))
      const filter = openFilter()
      return shown(path, linesOf(filter.push(read.bytes) + filter.end()), { first, last })
    },
  })
}

function shown(path: string, lines: readonly string[], range: { first: number; last: number | undefined }) {
  const { first, last = lines.length } = range
  if (lines.length === 0) return success('(the file is empty)', { lines: 0 })
  if (first <= lines.length) return numbered(lines, first, Math.min(last, lines.length))
  return failure('invalid_range', `start_line is ${first}, but ${path} has ${lines.length} lines`)
}

function linesOf(text: string): string[] {
  const lines = text.split(/\r?\n/)
  if (lines.at(-1) === '') lines.pop()
  return lines
}

function numbered(lines: readonly string[], first: number, last: number) {
  const shown: string[] = []
  let characters = 0
  for (let number = first; number <= last && shown.length < READ_LIMITS.maxLines; number += 1) {
    const line = `${number}\t${shorten(lines[number - 1] ?? '')}`
    characters += line.length + 1
    if (characters > READ_LIMITS.maxCharacters && shown.length > 0) break
    shown.push(line)
  }
  const end = first + shown.length - 1
  const truncated = end < last
  if (truncated)
    shown.push(`[… stopped after line ${end} of ${lines.length}; go on with start_line ${end + 1} …]`)
  return success(shown.join('\n'), { firstLine: first, lastLine: end, lines: lines.length, truncated })
}

function shorten(line: string): string {
  const surplus = line.length - READ_LIMITS.maxLineCharacters
  return surplus <= 0
    ? line
    : `${line.slice(0, READ_LIMITS.maxLineCharacters)}[… ${surplus} characters left out …]`
}
