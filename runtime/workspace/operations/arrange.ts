import { lstatSync, mkdirSync, renameSync } from 'node:fs'
import type { FileOperation, FileResult } from '../../../contracts/files.ts'
import { FileFault } from '../file-fault.ts'
import { atHandle } from '../handles.ts'
import { parsePath } from '../parse-path.ts'
import { inParent, makeDirectories, type Tree } from '../tree.ts'
import { statEntry } from './inspect.ts'

/** With `parents`, an existing directory is not an error, as in `mkdir -p`. */
export function makeDirectoryAt(tree: Tree, operation: FileOperation & { op: 'mkdir' }): FileResult {
  const path = parsePath(operation.path)
  if (operation.parents) makeDirectories(tree, path)
  else inParent(tree, path, (directory, name) => mkdirSync(atHandle(directory, name)))
  return { ok: true, entry: statEntry(tree, path) }
}

/** Renames an entry. An existing target is never replaced; a link is moved as a link. */
export function renameFile(tree: Tree, operation: FileOperation & { op: 'rename' }): FileResult {
  const from = parsePath(operation.from)
  const to = parsePath(operation.to)
  inParent(tree, from, (fromDirectory, fromName) =>
    inParent(tree, to, (toDirectory, toName) => {
      const target = atHandle(toDirectory, toName)
      if (lstatSync(target, { throwIfNoEntry: false })) {
        throw new FileFault('exists', `${to.text} exists already`)
      }
      renameSync(atHandle(fromDirectory, fromName), target)
    }),
  )
  return { ok: true, entry: statEntry(tree, to) }
}
