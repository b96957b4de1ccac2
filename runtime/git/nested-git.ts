import { closeSync, constants, openSync } from 'node:fs'
import { join } from 'node:path'
import type { GitEntry } from '../../contracts/workspace-layout.ts'
import { SandboxError } from '../kit/errors.ts'
import { GitWatch } from '../workspace/git/git-watch.ts'
import { findGit, type Repository } from './find-git.ts'

export interface NestedGit {
  readonly path: string
  readonly repository: Repository
}

/** The git directories in a folder, except the folder's own. */
export interface InnerGit {
  readonly entries: readonly GitEntry[]
  readonly nested: readonly NestedGit[]
  /** Bare repositories, and entries named `.git` that are not a valid repository. Mounted read-only. */
  readonly readOnly: readonly string[]
}

/** Each nested repository adds a git directory and mounts to every command. */
const MAX_NESTED = 32
const MAX_ENTRIES = 4096

/**
 * Finds the git directories in a folder. Throws `workspace_invalid` if one of them cannot be protected from a
 * run.
 */
export async function findInnerGit(folder: string): Promise<InnerGit> {
  const root = openSync(folder, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW)
  try {
    const { found, isComplete } = await new GitWatch(root).find()
    if (!isComplete) throw refused(folder, 'it cannot be searched completely for git directories')
    if (found.length > MAX_ENTRIES) throw refused(folder, `it has more than ${MAX_ENTRIES} git directories`)
    return await classify(folder, found)
  } finally {
    closeSync(root)
  }
}

async function classify(folder: string, entries: readonly GitEntry[]): Promise<InnerGit> {
  const nested: NestedGit[] = []
  const readOnly: string[] = []
  for (const entry of entries) {
    const one = await classifyOne(folder, entry)
    if ('repository' in one) nested.push(one)
    else readOnly.push(one.path)
  }
  if (nested.length > MAX_NESTED) throw refused(folder, tooMany(nested.length))
  return { entries, nested, readOnly }
}

const tooMany = (count: number) =>
  `it contains ${count} repositories; name one of them, or a folder with at most ${MAX_NESTED}`

async function classifyOne(folder: string, entry: GitEntry): Promise<NestedGit | { readonly path: string }> {
  const path = textOf(folder, entry.folder)
  if (entry.name.toLowerCase() === 'head') {
    if (path === '') throw refused(folder, 'it is a bare repository')
    return { path }
  }
  const git = entry.name === '.git' ? await findGit(join(folder, path)) : undefined
  if (git?.kind === 'refused') throw refused(folder, git.reason)
  return git?.kind === 'repository'
    ? { path, repository: git }
    : { path: join(path, textOf(folder, entry.name)) }
}

function textOf(folder: string, bytes: string): string {
  const text = Buffer.from(bytes, 'latin1').toString('utf8')
  if (Buffer.from(text).toString('latin1') === bytes) return text
  throw refused(folder, `the name of ${text} is not UTF-8, and a git directory lies there`)
}

export const refused = (folder: string, reason: string): SandboxError =>
  new SandboxError('workspace_invalid', `${folder} cannot be the workspace of a run: ${reason}`)
