import { execFile } from 'node:child_process'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import type { Plan } from '../../contracts/planned-resource.ts'

const run = promisify(execFile)
const MAX_BYTES = 64 * 1024 * 1024

const pathOf = (stack: string) => `plans/${stack}.json`

/** The bytes that are committed: the same plan gives the same file. */
export const serialize = (plan: Plan) => `${JSON.stringify(plan, null, 2)}\n`

/** Returns the committed plan of a stack, or undefined if it does not exist. */
export async function readStored(root: string, stack: string): Promise<string | undefined> {
  try {
    return await readFile(join(root, pathOf(stack)), 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

export async function writeStored(root: string, stack: string, content: string): Promise<string> {
  const path = join(root, pathOf(stack))
  await mkdir(dirname(path), { recursive: true })
  await writeFile(path, content)
  return pathOf(stack)
}

/** The plan committed at a revision. Undefined if that revision has none. Throws for an unknown revision. */
export async function readAtRevision(
  root: string,
  revision: string,
  stack: string,
): Promise<string | undefined> {
  const git = (...args: string[]) => run('git', args, { cwd: root, maxBuffer: MAX_BYTES })
  const { stdout: commit } = await git('rev-parse', '--verify', '--end-of-options', `${revision}^{commit}`)
  const { stdout: listed } = await git('ls-tree', '--name-only', commit.trim(), '--', pathOf(stack))
  if (listed.trim() === '') return undefined
  const { stdout } = await git('show', `${commit.trim()}:${pathOf(stack)}`)
  return stdout
}
