import { type Dir, fstatSync, lstatSync } from 'node:fs'
import { opendir } from 'node:fs/promises'
import type { FileEntry, FileOperation, FileResult } from '../../../contracts/files.ts'
import { AnswerSize } from '../answer-size.ts'
import { atHandle, entryOf, handlePath, withHandle, withHandleAsync } from '../handles.ts'
import { childOf, nameOf, parsePath, type WorkspacePath } from '../parse-path.ts'
import { inParent, openDirectory, openForListing, type Tree } from '../tree.ts'

/** Describes a name. A link is described as a link. */
export function statFile(tree: Tree, operation: FileOperation & { op: 'stat' }): FileResult {
  return { ok: true, entry: statEntry(tree, parsePath(operation.path)) }
}

export function statEntry(tree: Tree, path: WorkspacePath): FileEntry {
  if (path.names.length === 0) {
    return withHandle(openDirectory(tree, path), (fd) => entryOf(path.text, fstatSync(fd)))
  }
  return inParent(tree, path, (fd, name) => entryOf(path.text, lstatSync(atHandle(fd, name))))
}

/** Lists one page of a directory, sorted by name. */
export function listDirectory(tree: Tree, operation: FileOperation & { op: 'list' }): Promise<FileResult> {
  const path = parsePath(operation.path)
  return withHandleAsync(openForListing(tree, path), async (fd) => {
    const page = await pageOfNames(await opendir(handlePath(fd)), operation)
    const found = page.names.flatMap((name) => childEntry(fd, childOf(path, name)) ?? [])
    const size = new AnswerSize()
    const cut = found.findIndex((entry) => !size.fits(entry))
    const entries = cut < 0 ? found : found.slice(0, cut)
    const last = cut < 0 ? page.last : entries.at(-1)?.path.split('/').at(-1)
    return { ok: true, entries, ...(last === undefined ? {} : { next: last }) }
  })
}

function childEntry(directory: number, path: WorkspacePath): FileEntry | undefined {
  const stats = lstatSync(atHandle(directory, nameOf(path)), { throwIfNoEntry: false })
  return stats && entryOf(path.text, stats)
}

/**
 * Returns the smallest names after the cursor, and the last of them if more follow. Holds at most two pages of
 * names in memory, however large the directory is.
 */
async function pageOfNames(
  directory: Dir,
  page: { after?: string | undefined; limit: number },
): Promise<{ names: string[]; last?: string | undefined }> {
  let smallest: string[] = []
  for await (const { name } of directory) {
    if (page.after !== undefined && name <= page.after) continue
    smallest.push(name)
    if (smallest.length > 2 * page.limit) smallest = smallest.sort().slice(0, page.limit + 1)
  }
  const names = smallest.sort().slice(0, page.limit)
  return smallest.length > page.limit ? { names, last: names.at(-1) } : { names }
}
