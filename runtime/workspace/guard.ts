import type { FileError, FileOperation } from '../../contracts/files.ts'
import { isGitName } from './git/git-names.ts'
import { parsePath } from './parse-path.ts'

/** Restrictions on file operations in a workspace that is a user's folder. */
export interface WorkspaceGuard {
  /** Paths that can be read but not written. */
  readonly readOnly: readonly string[]
}

/** Returns the error for an operation that the guard denies, or undefined. */
export function guardRefusal(guard: WorkspaceGuard, operation: FileOperation): FileError | undefined {
  for (const path of pathsOf(operation)) {
    const { names } = parsePath(path)
    // `stat` on the name itself does not open the file.
    if ((operation.op === 'stat' ? names.slice(0, -1) : names).some(isGitName))
      return denied(`${path} belongs to git. File tools do not open git's own files; use a git command`)
  }
  const changed = changedBy(operation).find(({ path, isMoved }) => isReadOnly(guard, path, isMoved))
  return (
    changed &&
    denied(`${changed.path} is read-only in this run, because the git configuration of its user names it`)
  )
}

const denied = (message: string): FileError => ({ ok: false, code: 'denied', message })

function pathsOf(operation: FileOperation): string[] {
  if ('path' in operation) return [operation.path]
  return 'from' in operation ? [operation.from, operation.to] : []
}

/** The paths that an operation changes. Moving or deleting a path also affects everything below it. */
function changedBy(operation: FileOperation): { path: string; isMoved: boolean }[] {
  switch (operation.op) {
    case 'write':
    case 'mkdir':
      return [{ path: operation.path, isMoved: false }]
    case 'delete':
      return [{ path: operation.path, isMoved: true }]
    case 'rename':
      return [
        { path: operation.from, isMoved: true },
        { path: operation.to, isMoved: true },
      ]
    default:
      return []
  }
}

/** Compared case-insensitively, because the file system may be. */
function isReadOnly({ readOnly }: WorkspaceGuard, path: string, isMoved: boolean): boolean {
  const names = folded(parsePath(path).names)
  return readOnly.some((guarded) => {
    const kept = folded(guarded.split('/'))
    return startsWith(names, kept) || (isMoved && startsWith(kept, names))
  })
}

const folded = (names: readonly string[]) => names.map((name) => name.normalize('NFC').toLowerCase())

const startsWith = (names: readonly string[], first: readonly string[]) =>
  first.every((name, index) => names[index] === name)
