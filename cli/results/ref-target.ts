import { lstat, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Repository } from '../../runtime/git/find-git.ts'
import { absent, readData } from '../../runtime/git/read-data.ts'
import { CliError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'
import type { IsolatedGit } from '../program-call/isolated-git.ts'
import { visible } from '../terminal/visible.ts'

/** Git reads at most 256 bytes of it. */
const MAX_HEAD = 4_096

/** A ref that git will create in a repository. */
export interface RefTarget {
  /** The folder of the working tree. */
  readonly folder: string
  readonly repository: Repository
  readonly ref: string
}

/**
 * Git follows links when it writes objects and logs of refs, and with `--git-dir` it does not check the owner. A sandbox may
 * have written the repository, and a link in it could make git append to any file of the user. Throws if git would write
 * outside the repository, or into a repository of another user.
 */
export async function requireSafeTarget(git: IsolatedGit, target: RefTarget): Promise<void> {
  const { folder, ref } = target
  const { gitDir, commonDir } = target.repository
  for (const path of new Set([folder, join(folder, '.git'), gitDir, commonDir])) await requireOwner(path)
  await requireFileRefs(git, join(commonDir, 'config'))
  await requireNoHooks(git, gitDir)
  await requireNoLinks(join(commonDir, 'objects'))
  for (const path of [ref, `logs/${ref}`]) await requirePath(commonDir, path.split('/'))
  // Git also writes the log of a HEAD that names the ref, and each working tree has its own.
  await requirePath(gitDir, ['logs', 'HEAD'])
  await requireOtherHead(gitDir, ref)
}

async function requireOwner(path: string): Promise<void> {
  const uid = process.geteuid?.()
  const stats = await lstat(path)
  if (uid !== undefined && stats.uid !== uid)
    throw unsafe(`${path} belongs to another user (uid ${stats.uid})`)
}

/** The value may name a folder outside the repository. Git reads it from no other file. */
async function requireFileRefs(git: IsolatedGit, config: string): Promise<void> {
  const { status, stdout } = await git(['config', '--file', config, '--get-all', 'extensions.refstorage'])
  if (status === 0 && stdout.trim() !== 'files')
    throw unsafe(`${config} sets extensions.refStorage, which is not supported`)
}

/** Newer versions of git run hooks that the configuration names, even if `core.hooksPath` is set. */
async function requireNoHooks(git: IsolatedGit, gitDir: string): Promise<void> {
  const wanted = ['config', '--includes', '--name-only', '--get-regexp', '^hook\\.']
  const { status, stdout, stderr } = await git([`--git-dir=${gitDir}`, ...wanted])
  if (status === 0)
    throw unsafe(`its configuration has ${stdout.trim().split('\n').join(', ')}, so git would run a program`)
  // 1: no such key.
  if (status !== 1) throw unsafe(`its configuration cannot be read: ${stderr.trim()}`)
}

/** Git also changes a HEAD that names the ref, which has no commit yet. */
async function requireOtherHead(gitDir: string, ref: string): Promise<void> {
  await requirePath(gitDir, ['HEAD'])
  const head = join(gitDir, 'HEAD')
  const [, named] = /^ref:\s*(.*?)\s*$/s.exec((await readData(head, MAX_HEAD))?.toString('utf8') ?? '') ?? []
  if (named === ref) throw unsafe(`${head} names ${ref}`)
}

/** The folders in which git creates objects and packs. */
async function requireNoLinks(objects: string): Promise<void> {
  await requirePath(objects, [])
  for (const entry of await readdir(objects, { withFileTypes: true }))
    if (entry.isSymbolicLink()) throw unsafe(`${join(objects, entry.name)} is a symbolic link`)
}

/** Checks each folder down to a file, and the file. Stops at the first part that does not exist, because git creates it. */
async function requirePath(start: string, below: readonly string[]): Promise<void> {
  const paths = below.map((_, index) => join(start, ...below.slice(0, index + 1)))
  for (const path of [start, ...paths]) {
    const stats = await lstat(path).catch(absent)
    if (stats === undefined) return
    if (stats.isSymbolicLink()) throw unsafe(`${path} is a symbolic link`)
    if (stats.isDirectory()) continue
    // Git appends to a log that exists. A second name of the file could be outside the repository.
    if (!stats.isFile() || stats.nlink > 1)
      throw unsafe(`${path} is a special file, or a file with a second name (hard link)`)
    // A file in place of a folder is another ref. Git reports that conflict.
    return
  }
}

const unsafe = (reason: string): CliError =>
  new CliError(`This repository is not safe to write to: ${visible(reason)}.`, {
    status: EXIT.refused,
    hint: 'Nothing was changed. If you did not set this up yourself, a sandbox may have changed the repository: check it before you use it.',
  })
