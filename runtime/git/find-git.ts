import { realpath } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { errnoOf } from '../kit/errors.ts'
import { absent, kindOf, NotData, readData, readLine } from './read-data.ts'

/** The location of a folder's git directory. All paths are real paths. */
export interface Repository {
  /** Whether `.git` is the git directory itself, or a file that names it (worktree, submodule). */
  readonly entry: 'folder' | 'file'
  readonly gitDir: string
  /** The directory with objects, shared refs and configuration. Differs from `gitDir` only in a linked worktree. */
  readonly commonDir: string
}

export type FoundGit =
  | { readonly kind: 'none' }
  | ({ readonly kind: 'repository' } & Repository)
  /** Git would not accept it as a repository. */
  | { readonly kind: 'broken' }
  /** A repository that cannot be used by a run, with the reason. */
  | { readonly kind: 'refused'; readonly reason: string }

const MAX_CONFIG_BYTES = 4_194_304

/**
 * Finds the git directory of a folder. Files are read as data: nothing is executed and no link is followed.
 * Otherwise a folder from an untrusted source could show a run the objects of another repository.
 */
export async function findGit(folder: string): Promise<FoundGit> {
  const entry = join(folder, '.git')
  try {
    switch (await kindOf(entry).catch(closed)) {
      case undefined:
        return { kind: 'none' }
      case 'folder':
        return await inspect({ entry: 'folder', gitDir: entry, commonDir: entry })
      case 'file':
        return await followGitFile(folder, entry)
      case 'link':
        return refused(`${entry} is a symbolic link. Replace it with its target folder`)
      default:
        return { kind: 'broken' }
    }
  } catch (error) {
    if (error instanceof NotData) return refused(error.message)
    if (errnoOf(error) === 'EACCES') return refused(`${entry} cannot be read`)
    throw error
  }
}

/** A folder that this user cannot enter has no repository that the user could use. */
function closed(error: unknown): undefined {
  if (errnoOf(error) !== 'EACCES') throw error
}

const refused = (reason: string): FoundGit => ({ kind: 'refused', reason })

/** Finds the nearest repository above a folder. Its configuration also applies in the folder. */
export async function findEnclosingGit(folder: string): Promise<{ root: string; git: FoundGit } | undefined> {
  for (let root = dirname(folder); ; root = dirname(root)) {
    const git = await findGit(root)
    if (git.kind === 'repository' || git.kind === 'refused') return { root, git }
    if (root === dirname(root)) return undefined
  }
}

async function followGitFile(folder: string, entry: string): Promise<FoundGit> {
  const line = await readLine(entry)
  const named = /^gitdir: (.+)$/.exec(line ?? '')?.[1]
  if (named === undefined) return { kind: 'broken' }
  const gitDir = await realpath(resolve(folder, named)).catch(absent)
  if (gitDir === undefined || (await kindOf(gitDir)) !== 'folder') return { kind: 'broken' }
  const common = await readLine(join(gitDir, 'commondir'))
  const commonDir = common === undefined ? gitDir : await realpath(resolve(gitDir, common)).catch(absent)
  if (commonDir === undefined) return { kind: 'broken' }
  // Whoever made the folder can write any path into `commondir`, and cannot create a folder in `worktrees` of that repository.
  if (commonDir !== gitDir && dirname(gitDir) !== join(commonDir, 'worktrees'))
    return refused(`${gitDir} uses the objects of another repository (commondir)`)
  // Without this check, a downloaded folder could name any repository on this machine.
  if (!(await pointsBack(gitDir, folder)))
    return refused(`${entry} names ${gitDir}, which does not name ${folder} as its working tree`)
  return inspect({ entry: 'file', gitDir, commonDir })
}

/**
 * Returns whether a git directory names this folder as its working tree: a worktree in `gitdir`, a submodule in
 * `core.worktree`.
 */
async function pointsBack(gitDir: string, folder: string): Promise<boolean> {
  const worktree = await readLine(join(gitDir, 'gitdir'))
  if (worktree !== undefined) return isSame(dirname(resolve(gitDir, worktree)), folder)
  const config = (await readData(join(gitDir, 'config'), MAX_CONFIG_BYTES))?.toString('utf8') ?? ''
  const named = /^\s*worktree\s*=\s*"?([^"\n]+?)"?\s*$/m.exec(config)?.[1]
  return named !== undefined && isSame(resolve(gitDir, named), folder)
}

const isSame = async (path: string, folder: string) => (await realpath(path).catch(absent)) === folder

async function inspect(repository: Repository): Promise<FoundGit> {
  const { entry, gitDir, commonDir } = repository
  const objects = join(commonDir, 'objects')
  if ((await kindOf(join(gitDir, 'HEAD'))) === undefined) return { kind: 'broken' }
  if (entry === 'folder' && (await kindOf(join(gitDir, 'commondir'))) !== undefined)
    return refused(`${gitDir} uses the objects of another repository (commondir)`)
  if ((await kindOf(join(commonDir, 'reftable'))) !== undefined)
    return refused(`${commonDir} keeps its refs in the reftable format, which is not supported`)
  for (const folder of [objects, join(commonDir, 'refs')]) {
    const kind = await kindOf(folder)
    if (kind === undefined) return { kind: 'broken' }
    if (kind !== 'folder') return refused(`${folder} is not a folder`)
  }
  const borrowed = await firstText(join(objects, 'info', 'alternates'))
  if (borrowed !== undefined)
    return refused(
      `${commonDir} borrows objects from ${borrowed}. Make it complete: git repack -a -d, then delete objects/info/alternates`,
    )
  return { kind: 'repository', ...repository }
}

/** Git skips empty lines. */
async function firstText(path: string): Promise<string | undefined> {
  const text = (await readData(path, MAX_CONFIG_BYTES))?.toString('utf8').trim()
  return text?.split('\n', 1)[0] || undefined
}
