import { RE2JS } from 're2js'
import type { FileOperation, FileResult } from '../../../contracts/files.ts'
import { FILE_LIMITS } from '../../../contracts/limits.ts'
import { messageOf } from '../../kit/errors.ts'
import { AnswerSize } from '../answer-size.ts'
import { faultFrom } from '../file-fault.ts'
import { compileGlob } from '../glob.ts'
import { readUpTo, regularFile, withHandleAsync } from '../handles.ts'
import { READ_FLAGS } from '../operations/read.ts'
import type { WorkspacePath } from '../parse-path.ts'
import type { Tree } from '../tree.ts'
import { SearchBudget } from './search-budget.ts'
import { isGoneOrClosed, walkFiles } from './walk-files.ts'

type Match = { path: string; line: number; text: string }

/** Git detects binary files by a NUL in the same number of bytes. */
const BINARY_PROBE_BYTES = 8000
/** Longer lines are searched only up to here, so that one line cannot block the event loop. */
const MAX_LINE_CHARACTERS = 65_536
/** Longest part of a matching line that is returned. */
const MAX_SHOWN_CHARACTERS = 500

interface Search {
  readonly isMatch: (line: string) => boolean
  readonly matches: Match[]
  readonly maxResults: number
  readonly budget: SearchBudget
  readonly size: AnswerSize
}

/** Finds lines that contain a text or match a regular expression (RE2 syntax, linear time). */
export async function grepFiles(
  tree: Tree,
  operation: FileOperation & { op: 'grep' },
  signal?: AbortSignal,
): Promise<FileResult> {
  const budget = new SearchBudget(signal)
  const search: Search = {
    isMatch: lineMatcher(operation),
    matches: [],
    maxResults: operation.maxResults,
    budget,
    size: new AnswerSize(),
  }
  const isIncluded = operation.include === undefined ? () => true : compileGlob(operation.include)
  for await (const path of walkFiles(tree, budget)) {
    await budget.yieldTurn()
    if (!isIncluded(path.text)) continue
    const text = await readText(tree, path, budget)
    if (text !== undefined && !(await searchText(text, path.text, search))) break
  }
  return { ok: true, matches: search.matches, truncated: budget.truncated }
}

function lineMatcher({ pattern, isRegex }: FileOperation & { op: 'grep' }): Search['isMatch'] {
  if (!isRegex) return (line) => line.includes(pattern)
  try {
    const compiled = RE2JS.compile(pattern)
    return (line) => compiled.test(line)
  } catch (error) {
    throw faultFrom(error, 'invalid_pattern', `the pattern is malformed: ${messageOf(error)}`)
  }
}

/** Returns the text of a file, or undefined if it is binary, too large or deleted. */
async function readText(tree: Tree, path: WorkspacePath, budget: SearchBudget): Promise<string | undefined> {
  try {
    return await withHandleAsync(tree.engine.open(path, READ_FLAGS), async (fd) => {
      const { size } = regularFile(fd, path.text)
      if (size > FILE_LIMITS.searchMaxFileBytes) {
        budget.truncated = true
        return undefined
      }
      const bytes = await readUpTo(fd, 0, size)
      if (bytes.subarray(0, BINARY_PROBE_BYTES).includes(0)) return undefined
      return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('utf8')
    })
  } catch (error) {
    if (isGoneOrClosed(error)) return undefined
    throw error
  }
}

/** Adds the matching lines of a file. Returns false once the search is over. */
async function searchText(text: string, path: string, search: Search): Promise<boolean> {
  let line = 0
  for (let start = 0; start < text.length; ) {
    const newline = text.indexOf('\n', start)
    const end = newline < 0 ? text.length : newline
    line++
    if (search.isMatch(lineAt(text, { start, end }, search.budget))) {
      const match = { path, line, text: text.slice(start, end).slice(0, MAX_SHOWN_CHARACTERS) }
      if (!addMatch(search, match)) return false
    }
    start = end + 1
    if (search.budget.spent) return false
    await search.budget.yieldTurn()
  }
  return true
}

function addMatch(search: Search, match: Match): boolean {
  const fits = search.matches.length < search.maxResults && search.size.fits(match)
  if (fits) search.matches.push(match)
  else search.budget.truncated = true
  return fits
}

function lineAt(text: string, { start, end }: { start: number; end: number }, budget: SearchBudget): string {
  const searched = Math.min(end, start + MAX_LINE_CHARACTERS)
  if (searched < end) budget.truncated = true
  const withoutReturn = text[searched - 1] === '\r' ? searched - 1 : searched
  return text.slice(start, Math.max(start, withoutReturn))
}
