import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Repository } from '../../runtime/git/find-git.ts'
import { CliError, usageError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'
import { createCallProgram } from '../program-call/call-program.ts'
import { type IsolatedGit, openIsolatedGit } from '../program-call/isolated-git.ts'
import type { CliIo } from '../terminal/terminal.ts'
import { visible } from '../terminal/visible.ts'
import { requireSafeTarget } from './ref-target.ts'

/** The last commit of a repository, from which a branch with one changed file begins. */
export interface BranchStart {
  /** Content of the file in the commit. */
  readonly text: string | undefined
  /** Creates the branch. Returns its commit. */
  commit(text: string, message: string): Promise<string>
}

export interface NewBranch {
  readonly io: Pick<CliIo, 'env'>
  /** The folder of the working tree. */
  readonly folder: string
  readonly repository: Repository
  readonly branch: string
  /** Path of the file from the top of the repository. */
  readonly path: string
}

/**
 * Prepares a new branch with plumbing commands and a temporary index: the working tree, the index and the other branches of
 * the user stay as they are, and no hook runs. Throws before it writes anything if the branch exists, or if git would write
 * outside the repository.
 */
export async function withBranchStart<T>(
  site: NewBranch,
  use: (start: BranchStart) => Promise<T>,
): Promise<T> {
  const scratch = await mkdtemp(join(tmpdir(), 'agentweaver-branch-'))
  try {
    const isolated = openIsolatedGit(site.io, scratch)
    // Overrides `core.worktree` of the repository's configuration.
    const env = { GIT_INDEX_FILE: join(scratch, 'index'), GIT_WORK_TREE: scratch }
    const git: IsolatedGit = (args, rest) =>
      isolated([`--git-dir=${site.repository.gitDir}`, ...args], { env, ...rest })
    const ref = await freeRef(git, site)
    const head = await git(['rev-parse', '--quiet', '--verify', 'HEAD^{commit}'])
    if (head.status !== 0) throw usageError('The repository has no commit, so no branch can begin there.')
    const from = { ref, head: head.stdout.trim(), scratch }
    const found = await contentOf(git, from.head, site.path)
    return await use({
      text: found?.text,
      commit: (text, message) => commit(git, { ...site, ...from, mode: found?.mode, text, message }),
    })
  } finally {
    await rm(scratch, { recursive: true, force: true })
  }
}

interface Change extends NewBranch {
  readonly ref: string
  readonly head: string
  readonly scratch: string
  readonly mode: string | undefined
  readonly text: string
  readonly message: string
}

async function commit(git: IsolatedGit, change: Change): Promise<string> {
  const { ref, head, scratch, path, mode = '100644' } = change
  const identity = await identityOf(change)
  await requireSafeTarget(git, change)
  const inScratch = async (name: string, content: string) => {
    await writeFile(join(scratch, name), content, { mode: 0o600 })
    return join(scratch, name)
  }
  const blob = await done(git, ['hash-object', '-w', '--no-filters', await inScratch('file', change.text)])
  await done(git, ['read-tree', head])
  await done(git, ['update-index', '--add', '--cacheinfo', `${mode},${blob},${path}`])
  const tree = await done(git, ['write-tree', '--missing-ok'])
  const message = await inScratch('message', change.message)
  const id = await done(git, [...identity, 'commit-tree', tree, '-p', head, '-F', message])
  const log = ['--no-deref', '-m', 'agentweaver policy propose']
  await done(git, ['update-ref', ...log, ref, id, '0'.repeat(id.length)])
  return id
}

async function done(git: IsolatedGit, args: readonly string[]): Promise<string> {
  const { status, stdout, stderr } = await git(args)
  if (status === 0) return stdout.trim()
  throw new CliError(`The branch cannot be created: ${visible(stderr.trim())}`, { status: EXIT.runFailed })
}

/** Names that git resolves to something else than the branch: `HEAD` and similar refs, whole ids, and whole names of refs. */
const SPECIAL = /^(?:@|[Hh][Ee][Aa][Dd]|[A-Z_]+_HEAD|AUTO_MERGE|refs\/.*|[0-9a-f]{40}|[0-9a-f]{64})$/

async function freeRef(git: IsolatedGit, site: NewBranch): Promise<string> {
  const { branch } = site
  const ref = `refs/heads/${branch}`
  if (branch.startsWith('-') || (await git(['check-ref-format', ref])).status !== 0)
    throw usageError(`This is not a name for a branch: ${visible(branch)}`)
  if (SPECIAL.test(branch)) throw usageError(`Git has another meaning for this name: ${visible(branch)}`)
  await requireSafeTarget(git, { ...site, ref })
  // A symbolic ref to a branch that does not exist cannot be verified.
  const known = [
    await git(['rev-parse', '--quiet', '--verify', ref]),
    await git(['symbolic-ref', '--quiet', ref]),
  ]
  if (known.every(({ status }) => status !== 0)) return ref
  throw new CliError(`The branch ${visible(branch)} exists. Nothing was changed.`, {
    status: EXIT.refused,
    hint: 'Choose another name with --branch.',
  })
}

const LISTED = /^(\d{6}) \w+ ([0-9a-f]{40,64})\t/

/** The file in a commit. */
async function contentOf(
  git: IsolatedGit,
  head: string,
  path: string,
): Promise<{ readonly text: string; readonly mode: string } | undefined> {
  const listed = await git(['ls-tree', '-z', '--full-tree', head, '--', path])
  const [, mode, id] = LISTED.exec(listed.stdout) ?? []
  if (listed.status === 0 && (mode === undefined || id === undefined)) return undefined
  if (mode !== '100644' && mode !== '100755')
    throw usageError(`${path} is not a regular file in the last commit.`)
  const { status, stdout } = await git(['cat-file', 'blob', String(id)])
  if (status === 0 && !stdout.includes('\ufffd')) return { text: stdout, mode }
  throw usageError(`${path} in the last commit cannot be read as UTF-8.`)
}

const IDENTITY = /^(.*) <(.*)> \d+ [+-]\d{4}$/
const OF_USER = ['PATH', 'HOME', 'XDG_CONFIG_HOME', 'GIT_AUTHOR_NAME', 'GIT_AUTHOR_EMAIL', 'EMAIL']

/** The user's name for commits, from git's configuration. Git runs no other program for it. */
async function identityOf({ io, repository, scratch }: Change): Promise<string[]> {
  const env = Object.fromEntries(OF_USER.map((name) => [name, io.env[name]]))
  const call = createCallProgram({ cwd: scratch, env })
  const args = [`--git-dir=${repository.gitDir}`, 'var', 'GIT_AUTHOR_IDENT']
  const { status, stdout } = await call({ program: 'git', args })
  const [, name, email] = (status === 0 && IDENTITY.exec(stdout.trim())) || []
  if (name !== undefined && email !== undefined)
    return ['-c', `user.name=${name}`, '-c', `user.email=${email}`]
  throw usageError(
    'Git does not know your name, so it cannot make a commit.',
    'Set it with: git config --global user.name "Your Name", and user.email.',
  )
}
