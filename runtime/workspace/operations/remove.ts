import { closeSync, constants, lstatSync, openSync, rmdirSync, unlinkSync } from 'node:fs'
import { opendir } from 'node:fs/promises'
import type { FileOperation, FileResult } from '../../../contracts/files.ts'
import { FileFault } from '../file-fault.ts'
import { atHandle, handlePath, withHandleAsync } from '../handles.ts'
import { nameOf, parentOf, parsePath } from '../parse-path.ts'
import { openDirectory, type Tree } from '../tree.ts'

const LISTING = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW
/** Every level holds one file descriptor while its children are deleted. */
const MAX_DEPTH = 256

interface Removal {
  readonly recursive: boolean
  readonly signal: AbortSignal | undefined
  readonly shown: string
}

/** Deletes a file, a link (never its target), or a directory, recursively if requested. */
export async function removeFile(
  tree: Tree,
  operation: FileOperation & { op: 'delete' },
  signal?: AbortSignal,
): Promise<FileResult> {
  const path = parsePath(operation.path)
  const name = nameOf(path)
  const removal = { recursive: operation.recursive, signal, shown: path.text }
  await withHandleAsync(openDirectory(tree, parentOf(path)), (directory) =>
    removeName({ directory, name, depth: 0 }, removal),
  )
  return { ok: true }
}

async function removeName(
  at: { directory: number; name: string; depth: number },
  removal: Removal,
): Promise<void> {
  removal.signal?.throwIfAborted()
  const target = atHandle(at.directory, at.name)
  if (!lstatSync(target).isDirectory()) return unlinkSync(target)
  if (removal.recursive) await empty(target, at.depth, removal)
  rmdirSync(target)
}

async function empty(target: string, depth: number, removal: Removal): Promise<void> {
  if (depth >= MAX_DEPTH) {
    throw new FileFault('denied', `${removal.shown} is nested more than ${MAX_DEPTH} levels deep`)
  }
  const fd = openSync(target, LISTING)
  try {
    for await (const { name } of await opendir(handlePath(fd))) {
      await removeName({ directory: fd, name, depth: depth + 1 }, removal)
    }
  } finally {
    closeSync(fd)
  }
}
