import { locateHunk } from './locate-hunk.ts'
import type { Hunk, HunkLine } from './patch-model.ts'
import { dominantTerminator, splitLines, type TextLine } from './text-lines.ts'

type ApplyResult = { readonly ok: true; readonly text: string } | HunkMismatch
type HunkMismatch = { readonly ok: false; readonly code: 'no_match' | 'not_unique'; readonly message: string }

/**
 * Applies hunks to a text. The old lines must match the file exactly; only their position may have changed. Line
 * terminators stay as they are, and added lines use the file's terminator.
 */
export function applyHunks(text: string, hunks: readonly Hunk[]): ApplyResult {
  const file = splitLines(text)
  const terminator = dominantTerminator(file)
  const output: TextLine[] = []
  let cursor = 0
  for (const [index, hunk] of hunks.entries()) {
    const place = locateHunk({ file, hunk, from: cursor })
    if (!place.ok) return { ...place, message: `hunk ${index + 1} of ${hunks.length}: ${place.message}` }
    output.push(...file.slice(cursor, place.at))
    const old = file.slice(place.at, place.at + place.length)
    output.push(...replacement({ hunk, old, terminator }))
    cursor = place.at + place.length
  }
  output.push(...file.slice(cursor))
  return { ok: true, text: joinLines(output, terminator) }
}

type Replacement = { readonly hunk: Hunk; readonly old: readonly TextLine[]; readonly terminator: string }

/** The new lines of a hunk: context as the file has it, additions with a terminator. */
function replacement({ hunk, old, terminator }: Replacement): TextLine[] {
  const lines: TextLine[] = []
  let at = 0
  for (const line of hunk.lines) {
    const oldLine = line.kind === 'add' ? undefined : old[at++]
    if (line.kind === 'context') lines.push(oldLine ?? { text: line.text, end: terminator })
    if (line.kind === 'add') lines.push(addedLine(line, terminator))
  }
  return withFinalNewlineOf({ hunk, old, lines, terminator })
}

const addedLine = ({ text, noNewline }: HunkLine, terminator: string): TextLine => ({
  text: text.replace(/\r$/, ''),
  end: noNewline ? '' : terminator,
})

/**
 * A patch without a marker for the file's last line feed leaves it unchanged. A patch that marks only the old side adds
 * it.
 */
function withFinalNewlineOf({
  hunk,
  old,
  lines,
  terminator,
}: Replacement & { lines: TextLine[] }): TextLine[] {
  const last = lines.at(-1)
  const touchesOpenEnd = old.length > 0 && old.at(-1)?.end === ''
  if (last === undefined || !touchesOpenEnd) return lines
  const marks = hunk.lines.filter((line) => line.noNewline)
  const end = marks.length === 0 ? '' : marks.some((line) => line.kind !== 'remove') ? last.end : terminator
  return [...lines.slice(0, -1), { text: last.text, end }]
}

/** Only the last line can lack a terminator; if lines were added after it, it gets one. */
const joinLines = (lines: readonly TextLine[], terminator: string): string =>
  lines
    .map(({ text, end }, index) => text + (end === '' && index < lines.length - 1 ? terminator : end))
    .join('')
