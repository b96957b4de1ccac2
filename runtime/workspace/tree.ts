import { constants, mkdirSync } from 'node:fs'
import { errnoOf } from '../kit/errors.ts'
import type { PathEngine, Root } from './engines/path-engine.ts'
import { atHandle, O_PATH, withHandle } from './handles.ts'
import { nameOf, parentOf, pathOf, type WorkspacePath } from './parse-path.ts'

/** A root and the engine that opens files below it. Input of every operation. */
export interface Tree {
  readonly root: Root
  readonly engine: PathEngine
}

const DIRECTORY = O_PATH | constants.O_DIRECTORY
/** Reduced by the process's umask. */
const NEW_DIRECTORY_MODE = 0o777

/** Opens a verified handle on a directory. The caller must close it. */
export const openDirectory = (tree: Tree, path: WorkspacePath): number => tree.engine.open(path, DIRECTORY)

/** Opens a directory for listing. The caller must close the handle. */
export const openForListing = (tree: Tree, path: WorkspacePath): number =>
  tree.engine.open(path, constants.O_RDONLY | constants.O_DIRECTORY)

/** Runs `work` with a verified handle on the parent directory and the last name. Every change goes through this. */
export function inParent<T>(
  tree: Tree,
  path: WorkspacePath,
  work: (directory: number, name: string) => T,
): T {
  const name = nameOf(path)
  return withHandle(openDirectory(tree, parentOf(path)), (directory) => work(directory, name))
}

/** Creates a directory and its missing parents. Each step is verified. */
export function makeDirectories(tree: Tree, path: WorkspacePath): void {
  for (let depth = existingDepth(tree, path) + 1; depth <= path.names.length; depth++) {
    makeDirectory(tree, pathOf(path.names.slice(0, depth)))
  }
}

/** The number of leading names that exist as directories. */
function existingDepth(tree: Tree, path: WorkspacePath): number {
  for (let depth = path.names.length; depth > 0; depth--) {
    try {
      withHandle(openDirectory(tree, pathOf(path.names.slice(0, depth))), () => undefined)
      return depth
    } catch (error) {
      if (errnoOf(error) !== 'ENOENT') throw error
    }
  }
  return 0
}

/** Another process may have created the directory. The next step verifies it. */
function makeDirectory(tree: Tree, path: WorkspacePath): void {
  try {
    inParent(tree, path, (directory, name) => mkdirSync(atHandle(directory, name), NEW_DIRECTORY_MODE))
  } catch (error) {
    if (errnoOf(error) !== 'EEXIST') throw error
    withHandle(openDirectory(tree, path), () => undefined)
  }
}
