import type { FolderMode } from '../../contracts/api.ts'
import { findEnclosingGit, findGit } from './find-git.ts'
import { refused } from './nested-git.ts'

export interface ModeQuestion {
  readonly path: string
  /** The mode that the caller requested. */
  readonly wanted: FolderMode | undefined
  /** Whether an agent runs. A sandbox without an agent works in the named folder unless a copy is requested. */
  readonly isForAgent: boolean
  /** Whether this machine can isolate commands and git. */
  readonly canIsolate: boolean
}

/**
 * Chooses how a run uses a folder. An agent on a git repository gets an isolated copy, whose changes come back
 * as a branch; every other run works in the folder itself. Throws `workspace_invalid` if the requested mode is
 * not possible.
 */
export async function chooseFolderMode({
  path,
  wanted,
  isForAgent,
  canIsolate,
}: ModeQuestion): Promise<FolderMode> {
  const git = await findGit(path)
  if (git.kind === 'refused') throw refused(path, git.reason)
  const isRepository = git.kind === 'repository'
  if (wanted === 'isolated' && !isRepository)
    throw refused(
      path,
      'it is not a git repository, so the changes of an isolated copy could not come back as a branch',
    )
  if (wanted === undefined && isForAgent && !isRepository) await refuseInside(path)
  const mode = wanted ?? (isForAgent && isRepository ? 'isolated' : 'in-place')
  if (mode === 'isolated' && !canIsolate)
    throw refused(
      path,
      'an isolated copy needs isolation on this machine to create its results. Work in the folder itself (--in-place)',
    )
  return mode
}

/**
 * Rejects a subfolder of a repository: a copy of a part could not return a branch, and an agent edits a folder
 * in place only on request.
 */
async function refuseInside(path: string): Promise<void> {
  const enclosing = await findEnclosingGit(path)
  if (enclosing === undefined) return
  throw refused(
    path,
    `it lies in the git repository ${enclosing.root}. Name the repository to work on an isolated copy, or work in this folder itself (--in-place)`,
  )
}
