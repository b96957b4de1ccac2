import { type Dirent, lstatSync } from 'node:fs'
import { opendir } from 'node:fs/promises'
import { errnoOf } from '../../kit/errors.ts'
import { FileFault } from '../file-fault.ts'
import { isGitName } from '../git/git-names.ts'
import { atHandle, handlePath, withHandleAsync } from '../handles.ts'
import { childOf, pathOf, type WorkspacePath } from '../parse-path.ts'
import { openForListing, type Tree } from '../tree.ts'
import type { SearchBudget } from './search-budget.ts'

/** Folders without source files: installed packages and build output. */
const SKIPPED = new Set(['node_modules', 'bin', 'obj', '.vs'])

interface Listing {
  readonly files: WorkspacePath[]
  readonly folders: WorkspacePath[]
}

/** Yields every regular file below the root, except in skipped folders. Links are neither followed nor returned. */
export async function* walkFiles(tree: Tree, budget: SearchBudget): AsyncGenerator<WorkspacePath> {
  const waiting = [pathOf([])]
  for (let folder = waiting.pop(); folder && !budget.spent; folder = waiting.pop()) {
    const { files, folders } = await listFolder(tree, folder, budget)
    yield* files
    waiting.push(...folders.reverse())
  }
}

async function listFolder(tree: Tree, folder: WorkspacePath, budget: SearchBudget): Promise<Listing> {
  const listing: Listing = { files: [], folders: [] }
  try {
    await withHandleAsync(openForListing(tree, folder), async (fd) => {
      for await (const entry of await opendir(handlePath(fd))) {
        budget.countName()
        if (budget.spent) return
        sortIn(listing, folder, kindOf(entry, fd))
        await budget.yieldTurn()
      }
    })
  } catch (error) {
    if (!isGoneOrClosed(error)) throw error
    budget.truncated ||= errnoOf(error) === 'EACCES'
  }
  listing.files.sort(byText)
  listing.folders.sort(byText)
  return listing
}

const byText = (a: WorkspacePath, b: WorkspacePath): number => (a.text < b.text ? -1 : 1)

interface Kind {
  readonly name: string
  readonly isFile: boolean
  readonly isFolder: boolean
}

function sortIn(listing: Listing, folder: WorkspacePath, { name, isFile, isFolder }: Kind): void {
  if (isFile) listing.files.push(childOf(folder, name))
  if (isFolder && !SKIPPED.has(name) && !isGitName(name)) listing.folders.push(childOf(folder, name))
}

/** Some file systems do not report the type with the name. */
function kindOf(entry: Dirent, directory: number): Kind {
  const knows = entry.isFile() || entry.isDirectory() || entry.isSymbolicLink() || entry.isFIFO()
  const source = knows ? entry : lstatSync(atHandle(directory, entry.name), { throwIfNoEntry: false })
  return {
    name: entry.name,
    isFile: source?.isFile() ?? false,
    isFolder: source?.isDirectory() ?? false,
  }
}

/** The tree can change during a search. Entries that vanished, became links or cannot be accessed are skipped. */
export function isGoneOrClosed(error: unknown): boolean {
  if (error instanceof FileFault) return error.code !== 'io_error'
  return ['ENOENT', 'ENOTDIR', 'ELOOP', 'EACCES', 'EPERM', 'ENAMETOOLONG', 'ENXIO'].includes(
    errnoOf(error) ?? '',
  )
}
