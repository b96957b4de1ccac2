import type { LineReader } from './line-reader.ts'
import { parseHunks } from './parse-unified-hunks.ts'
import type { FileChange, Hunk, HunkLine } from './patch-model.ts'
import { parsePathField, stripPrefixes } from './unified-paths.ts'

/** The extended headers of one file. */
type Headers = {
  isGit: boolean
  renameFrom?: string
  renameTo?: string
  newMode?: number
  isNew: boolean
  isDeleted: boolean
  gitPaths?: string
}

/** Parses a unified diff, plain or with git's extended headers. */
export function parseUnifiedDiff(reader: LineReader): FileChange[] {
  const changes: FileChange[] = []
  reader.skipBlank()
  while (reader.next !== undefined) {
    changes.push(parseFile(reader))
    reader.skipBlank()
  }
  return changes
}

function parseFile(reader: LineReader): FileChange {
  const headers = parseHeaders(reader)
  const oldField = reader.takeIf((line) => line.startsWith('--- '))
  if (oldField === undefined) return changeWithoutHunks(reader, headers)
  const newField = reader.takeIf((line) => line.startsWith('+++ '))
  if (newField === undefined) throw reader.problemAhead('expected "+++ " after "--- "')
  const names = stripPrefixes(
    parsePathField(oldField.slice(4), reader),
    parsePathField(newField.slice(4), reader),
    headers.isGit,
  )
  return changeOf({ reader, headers, names, hunks: parseHunks(reader) })
}

function parseHeaders(reader: LineReader): Headers {
  const headers: Headers = { isGit: false, isNew: false, isDeleted: false }
  while (reader.next !== undefined && !reader.next.startsWith('--- ')) {
    if (headers.isGit && reader.next.startsWith('diff --git ')) break
    if (reader.next.trim() === '') break
    readHeader(reader, headers)
  }
  return headers
}

/** Reads one extended header. Any other line is rejected, so that prose is never skipped silently. */
function readHeader(reader: LineReader, headers: Headers): void {
  const line = reader.take()
  const after = (prefix: string) => (line.startsWith(prefix) ? line.slice(prefix.length) : undefined)
  const gitPaths = after('diff --git ')
  if (gitPaths !== undefined) {
    headers.isGit = true
    headers.gitPaths = gitPaths
    return
  }
  if (!headers.isGit && !/^(?:Index: |={3,}$|diff )/.test(line)) {
    throw reader.problem('expected "diff --git", "--- " or "*** Begin Patch"')
  }
  if (/^(?:copy (?:from|to) |GIT binary patch|Binary files )/.test(line)) {
    throw reader.problem('copies and binary patches cannot be applied')
  }
  readGitHeader(line, headers, reader)
}

const IGNORED_HEADERS = /^(?:index |old mode |similarity index |dissimilarity index |Index: |={3,}$|diff )/

function readGitHeader(line: string, headers: Headers, reader: LineReader): void {
  const [, name, value] = /^(rename from|rename to|.*\bmode) (.+)$/.exec(line) ?? []
  const path = () => parsePathField(value ?? '', reader) ?? ''
  switch (name) {
    case 'rename from':
      headers.renameFrom = path()
      return
    case 'rename to':
      headers.renameTo = path()
      return
    case 'new file mode':
      headers.isNew = true
      headers.newMode = modeOf(value, reader)
      return
    case 'new mode':
      headers.newMode = modeOf(value, reader)
      return
    case 'deleted file mode':
      headers.isDeleted = true
      return
    default:
      if (!IGNORED_HEADERS.test(line)) throw reader.problem('this line is not a diff header')
  }
}

function modeOf(text: string | undefined, reader: LineReader): number {
  if (text !== '100644' && text !== '100755') {
    throw reader.problem(`mode ${text} is refused: only regular files can be patched`)
  }
  return Number.parseInt(text.slice(3), 8)
}

/** A rename, a change of mode, or an empty file that is created or deleted. */
function changeWithoutHunks(reader: LineReader, headers: Headers): FileChange {
  const mode = headers.newMode === undefined ? {} : { mode: headers.newMode }
  if (headers.renameFrom && headers.renameTo) {
    return { kind: 'update', path: headers.renameFrom, movedTo: headers.renameTo, hunks: [], ...mode }
  }
  const path = gitPath(headers)
  if (path === undefined) throw reader.problem('expected "--- " or "rename from"')
  if (headers.isNew) return { kind: 'add', path, content: '', ...mode }
  if (headers.isDeleted) return { kind: 'delete', path, hunks: [] }
  if (headers.newMode !== undefined) return { kind: 'update', path, hunks: [], ...mode }
  throw reader.problem(`no change is given for ${path}`)
}

/** `a/x b/x` names one path twice. If the halves differ, the line alone is ambiguous. */
function gitPath({ gitPaths }: Headers): string | undefined {
  if (gitPaths === undefined) return undefined
  const half = (gitPaths.length - 1) / 2
  const [left, right] = [gitPaths.slice(0, half), gitPaths.slice(half + 1)]
  return left.startsWith('a/') && right === `b/${left.slice(2)}` ? left.slice(2) : undefined
}

type FileParts = {
  readonly reader: LineReader
  readonly headers: Headers
  readonly names: { old: string | undefined; new: string | undefined }
  readonly hunks: readonly Hunk[]
}

function changeOf({ reader, headers, names, hunks }: FileParts): FileChange {
  const mode = headers.newMode === undefined ? {} : { mode: headers.newMode }
  if (names.old === undefined && names.new === undefined) throw reader.problem('both names are /dev/null')
  if (names.old === undefined) {
    return { kind: 'add', path: names.new ?? '', content: contentOf(reader, hunks), ...mode }
  }
  if (hunks.length === 0) throw reader.problem(`no hunk is given for ${names.old}`)
  if (names.new === undefined) return { kind: 'delete', path: names.old, hunks }
  if (names.old === names.new) return { kind: 'update', path: names.old, hunks, ...mode }
  if (headers.renameFrom !== names.old || headers.renameTo !== names.new) {
    throw reader.problem(`${names.old} and ${names.new} differ without "rename from" and "rename to"`)
  }
  return { kind: 'update', path: names.old, movedTo: names.new, hunks, ...mode }
}

function contentOf(reader: LineReader, hunks: readonly Hunk[]): string {
  const lines: HunkLine[] = hunks.flatMap((hunk) => hunk.lines)
  if (hunks.length > 1 || lines.some((line) => line.kind !== 'add')) {
    throw reader.problem('a new file has one hunk of added lines')
  }
  return lines.map((line) => (line.noNewline ? line.text : `${line.text}\n`)).join('')
}
