import type { FileOperation, FileResult } from '../../../contracts/files.ts'
import { AnswerSize } from '../answer-size.ts'
import { compileGlob } from '../glob.ts'
import type { Tree } from '../tree.ts'
import { SearchBudget } from './search-budget.ts'
import { walkFiles } from './walk-files.ts'

/** Finds files that match a glob. */
export async function findFiles(
  tree: Tree,
  operation: FileOperation & { op: 'find' },
  signal?: AbortSignal,
): Promise<FileResult> {
  const isMeant = compileGlob(operation.pattern)
  const budget = new SearchBudget(signal)
  const size = new AnswerSize()
  const paths: string[] = []
  for await (const { text } of walkFiles(tree, budget)) {
    await budget.yieldTurn()
    if (!isMeant(text)) continue
    if (paths.length === operation.maxResults || !size.fits(text)) {
      budget.truncated = true
      break
    }
    paths.push(text)
  }
  return { ok: true, paths, truncated: budget.truncated }
}
