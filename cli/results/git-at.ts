import { findEnclosingGit, findGit } from '../../runtime/git/find-git.ts'
import { quoteWord } from '../terminal/shell-word.ts'
import { visible } from '../terminal/visible.ts'

/** How a git command for this folder begins, wherever the person runs it. */
export const gitIn = (folder: string): string => `git -C ${visible(quoteWord(folder))}`

/**
 * How a git command for the repository with this top folder begins, when the person runs it in `cwd`. Without `-C`, git would use
 * the repository of that folder.
 */
export async function gitAt(top: string, cwd: string): Promise<string> {
  const isTop = (await findGit(cwd)).kind !== 'none'
  const root = isTop ? cwd : (await findEnclosingGit(cwd))?.root
  return root === top ? 'git' : gitIn(top)
}
