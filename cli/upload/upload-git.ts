import { mkdir, readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { cleanConfig } from '../../runtime/git/clean-config.ts'
import type { ConfigEntry } from '../../runtime/git/configuration.ts'
import { findEnclosingGit, findGit, type Repository } from '../../runtime/git/find-git.ts'
import { makePrivateGit } from '../../runtime/git/private-git.ts'
import { absent, kindOf, NotData } from '../../runtime/git/read-data.ts'
import { CliError, usageError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'
import type { IsolatedGit } from '../program-call/isolated-git.ts'

/**
 * A git directory that the CLI makes from the folder's own one, with a new configuration. Git reads it instead of the
 * folder's, so that nothing which the folder configures runs: no hooks, no filters, no fsmonitor, no includes.
 */
export interface UploadGit {
  readonly directory: string
  /** The root of the working tree: the folder, or the root of the repository that contains it. */
  readonly root: string
  /** Whether the folder is the root of a repository, so that its history can be uploaded. */
  readonly hasHistory: boolean
}

export interface GitPlace {
  readonly folder: string
  /** An empty folder of the CLI. `.git` is made in it. */
  readonly scratch: string
  readonly wantsHistory: boolean
  /** A repository inside the folder: the one around it does not count. */
  readonly isNested?: boolean
}

/** Files of a git directory that name commits which no ref reaches. */
const UNREACHED = ['MERGE_HEAD', 'MERGE_MSG', 'MERGE_MODE', 'CHERRY_PICK_HEAD', 'REVERT_HEAD', 'ORIG_HEAD']

export async function makeUploadGit(git: IsolatedGit, place: GitPlace): Promise<UploadGit> {
  const directory = join(place.scratch, '.git')
  await mkdir(directory, { mode: 0o700 })
  const rules = await rulesFor(git, place)
  const { repository } = rules ?? {}
  await makePrivateGit({
    directory,
    repository,
    config: rules?.config ?? EMPTY_CONFIG,
    objects: repository ? join(repository.commonDir, 'objects') : '',
    excludes: '',
  }).catch((error: unknown) => {
    throw error instanceof NotData ? noHistory(error.message) : error
  })
  return { directory, root: rules?.root ?? place.folder, hasHistory: rules?.root === place.folder }
}

type Rules = { readonly root: string; readonly repository: Repository; readonly config: string }

/** The folder's own repository, or the one around it. Undefined if no repository can be read. */
async function rulesFor(git: IsolatedGit, place: GitPlace): Promise<Rules | undefined> {
  const { folder, wantsHistory, isNested = false } = place
  const found = await findGit(folder)
  if (found.kind === 'refused' && wantsHistory) throw noHistory(found.reason)
  const isOwn = found.kind === 'repository'
  const at = isOwn ? { root: folder, repository: found } : isNested ? undefined : await enclosing(folder)
  if (isOwn) await refuseLinkedObjects(found, wantsHistory)
  const config = at && (await readConfig(git, at.repository, wantsHistory && isOwn))
  return at && config !== undefined ? { ...at, config } : undefined
}

const EMPTY_CONFIG = '[core]\n\trepositoryformatversion = 0\n\tbare = false\n'

/** With a link, a folder from elsewhere could bring the objects of another repository of this machine into the upload. */
async function refuseLinkedObjects({ commonDir }: Repository, wantsHistory: boolean): Promise<void> {
  if (!wantsHistory) return
  const objects = join(commonDir, 'objects')
  const links = [...(await linksIn(objects)), ...(await linksIn(join(objects, 'pack')))]
  if (links[0] !== undefined) throw noHistory(`${links[0]} is a symbolic link`)
}

async function linksIn(folder: string): Promise<string[]> {
  const entries = (await readdir(folder, { withFileTypes: true }).catch(absent)) ?? []
  return entries.filter((entry) => entry.isSymbolicLink()).map(({ name }) => join(folder, name))
}

async function enclosing(folder: string): Promise<{ root: string; repository: Repository } | undefined> {
  const found = await findEnclosingGit(folder)
  return found?.git.kind === 'repository' ? { root: found.root, repository: found.git } : undefined
}

/** Undefined if the repository cannot be uploaded, and need not be. */
async function readConfig(
  git: IsolatedGit,
  { commonDir, gitDir }: Repository,
  wantsHistory: boolean,
): Promise<string | undefined> {
  const entries: ConfigEntry[] = []
  for (const file of [join(commonDir, 'config'), join(gitDir, 'config.worktree')]) {
    const kind = await kindOf(file)
    if (kind === undefined) continue
    // Git would follow a link, and reads a named file without its includes.
    if (kind !== 'file') throw noHistory(`${file} is not a regular file`)
    const { status, stdout, stderr } = await git(['config', '--file', file, '--no-includes', '--list', '-z'])
    if (status !== 0) throw noHistory(`git cannot read ${file}: ${stderr.trim()}`)
    entries.push(...entriesOf(stdout, file))
  }
  const clean = cleanConfig(entries)
  if (clean.ok) return clean.text
  if (wantsHistory) throw noHistory(clean.reason)
  return undefined
}

/** `key LF value NUL`. A variable without a value has no line feed. */
const entriesOf = (output: string, file: string): ConfigEntry[] =>
  output
    .split('\0')
    .filter(Boolean)
    .map((setting) => {
      const end = setting.indexOf('\n')
      return end < 0
        ? { scope: 'local', file, key: setting, value: 'true' }
        : { scope: 'local', file, key: setting.slice(0, end), value: setting.slice(end + 1) }
    })

const noHistory = (why: string): CliError =>
  usageError(
    `The git history of the folder cannot be uploaded: ${why.replace(/\.$/, '')}.`,
    'Upload the files without it: --no-git.',
  )

/**
 * Puts the objects that the refs and the index reach into one pack of the upload's git directory. A stash, a reflog, and what
 * was once committed and then removed stay on this machine.
 */
export async function packHistory(git: IsolatedGit, { directory }: UploadGit): Promise<void> {
  const at = [`--git-dir=${directory}`]
  const packed = await git([
    ...at,
    ...['pack-objects', '--quiet', '--all', '--indexed-objects', '--non-empty', '--delta-base-offset'],
    join(directory, 'objects', 'pack', 'pack'),
  ])
  if (packed.status !== 0)
    throw new CliError(`The git history of the folder cannot be packed: ${packed.stderr.trim()}`, {
      status: EXIT.runFailed,
      hint: 'Check it with "git fsck", or upload the files without it: --no-git.',
    })
  await rm(join(directory, 'objects', 'info', 'alternates'), { force: true })
  for (const name of UNREACHED) await rm(join(directory, name), { force: true })
  // These parts of an index name the machine, or need a program.
  if ((await kindOf(join(directory, 'index'))) !== undefined)
    await git([...at, 'update-index', '--no-split-index', '--no-untracked-cache', '--no-fsmonitor'])
  for (const name of (await readdir(directory).catch(absent)) ?? [])
    if (name.startsWith('sharedindex.')) await rm(join(directory, name))
}

export const ignoresOfUser = async (git: IsolatedGit, home: string | undefined): Promise<string[]> => {
  if (!home) return []
  const asked = await git(
    ['config', '--file', join(home, '.gitconfig'), '--type=path', 'core.excludesFile'],
    {
      env: { HOME: home },
    },
  )
  const named = asked.status === 0 ? asked.stdout.trim() : ''
  const file = named || join(home, '.config', 'git', 'ignore')
  return (await kindOf(file)) === 'file' ? ['-c', `core.excludesFile=${file}`] : []
}

export const writeIndexInfo = (file: string, paths: readonly string[]): Promise<void> =>
  // The id is not checked: only the names of this index are used.
  writeFile(file, paths.map((path) => `100644 ${EMPTY_BLOB}\t${path}\0`).join(''))

const EMPTY_BLOB = 'e69de29bb2d1d6434b8b29ae775ad8c2e48c5391'
