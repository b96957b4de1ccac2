import type { FolderMode } from '../../contracts/api.ts'
import { findEnclosingGit, findGit } from './find-git.ts'
import { refused } from './nested-git.ts'

export interface ModeQuestion {
  readonly path: string
  /** What the caller asked for. */
  readonly wanted: FolderMode | undefined
  /** A sandbox without an agent works in the folder that its user named, unless a copy is asked for. */
  readonly isForAgent: boolean
  /** Whether commands and git are isolated on this machine. */
  readonly canIsolate: boolean
}

/**
 * How a run works on a folder: on a copy where an agent works on a git repository, which gets a branch back; else in the
 * folder itself. Throws `workspace_invalid` where neither can be done as asked.
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
    throw refused(path, 'it is no git repository, so no branch could bring changes of an isolated copy back')
  if (wanted === undefined && isForAgent && !isRepository) await refuseInside(path)
  const mode = wanted ?? (isForAgent && isRepository ? 'isolated' : 'in-place')
  if (mode === 'isolated' && !canIsolate)
    throw refused(
      path,
      'an isolated copy needs isolation on this machine, where the results are made. Work in the folder itself (--in-place)',
    )
  return mode
}

/** A copy of a part of a repository could give no branch back, and a folder is not edited in place unasked. */
async function refuseInside(path: string): Promise<void> {
  const enclosing = await findEnclosingGit(path)
  if (enclosing === undefined) return
  throw refused(
    path,
    `it lies in the git repository ${enclosing.root}. Name that folder to work on an isolated copy, or work in this one itself (--in-place)`,
  )
}
