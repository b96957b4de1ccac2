import { createHash } from 'node:crypto'
import { constants } from 'node:fs'
import { copyFile, mkdir, mkdtemp, open, readdir, realpath, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { RunDiff } from '../../contracts/results.ts'
import { findGit, type Repository } from '../../runtime/git/find-git.ts'
import { CliError, usageError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'
import { type IsolatedGit, openIsolatedGit } from '../program-call/isolated-git.ts'
import type { CliIo } from '../terminal/terminal.ts'
import { readBundleHeader, writePack } from './bundle-file.ts'
import { requireSafeTarget } from './ref-target.ts'

type Branch = NonNullable<RunDiff['branch']>

export interface FetchRequest {
  /** A folder that is a git repository. */
  readonly folder: string
  readonly branch: Branch
  readonly bundle: AsyncIterable<Uint8Array>
}

export interface FetchedBranch {
  readonly ref: string
  readonly commit: string
  readonly repository: string
  /** The top folder of its working tree. */
  readonly folder: string
  /** The ref existed before. */
  readonly isKnown: boolean
}

/** Git only warns about these by default. Such names could write outside the checkout, and no run needs them. */
const FAULTS = ['hasDot', 'hasDotdot', 'hasDotgit', 'fullPathname', 'emptyName', 'nullSha1']

/**
 * Fetches a run's commits into a repository as one ref. An agent wrote the bundle, so it is not trusted: its pack goes
 * into a quarantine git directory that borrows the repository's objects, and git checks every new object there. Only then
 * are the objects moved into the repository. No git command runs in the folder, and no file in it changes.
 */
export async function fetchBranch(io: Pick<CliIo, 'env'>, request: FetchRequest): Promise<FetchedBranch> {
  const { branch } = request
  const { folder, repository } = await requireRepository(request.folder)
  const scratch = await mkdtemp(join(tmpdir(), 'agentweaver-fetch-'))
  try {
    const git = openIsolatedGit(io, scratch)
    const bundle = join(scratch, 'run.bundle')
    await download(request, bundle)
    const quarantine = await makeQuarantine(scratch, repository, branch.commit)
    await readBundle(git, { bundle, quarantine, branch })
    await requireSafeTarget(git, { folder, repository, ref: branch.ref })
    await takeObjects(join(quarantine, 'objects', 'pack'), join(repository.commonDir, 'objects', 'pack'))
    const isKnown = await writeRef(git, repository, branch)
    return { ref: branch.ref, commit: branch.commit, repository: repository.gitDir, folder, isKnown }
  } finally {
    await rm(scratch, { recursive: true, force: true })
  }
}

async function requireRepository(
  folder: string,
): Promise<{ readonly folder: string; readonly repository: Repository }> {
  const real = await realpath(folder).catch(() => undefined)
  if (real === undefined)
    throw usageError(`There is no folder ${folder} on this machine.`, 'Name your clone with --repo DIR.')
  const git = await findGit(real)
  if (git.kind === 'repository') return { folder: real, repository: git }
  const why = git.kind === 'refused' ? git.reason : `${folder} is not a git repository`
  throw usageError(why, 'Name a clone with --repo DIR.')
}

async function download({ branch, bundle }: FetchRequest, to: string): Promise<void> {
  const hash = createHash('sha256')
  let bytes = 0
  await using file = await open(to, 'wx', 0o600)
  for await (const piece of bundle) {
    bytes += piece.length
    if (bytes > branch.bytes) break
    hash.update(piece)
    await file.write(piece)
  }
  if (bytes === branch.bytes && hash.digest('hex') === branch.sha256) return
  throw new CliError('The bundle is not the one that the service announced.', {
    status: EXIT.runFailed,
    hint: 'Try again; nothing was changed.',
  })
}

async function makeQuarantine(scratch: string, repository: Repository, commit: string): Promise<string> {
  const directory = join(scratch, 'quarantine')
  for (const folder of ['objects/info', 'objects/pack', 'refs'])
    await mkdir(join(directory, folder), { recursive: true })
  const isSha256 = commit.length === 64
  const config = [
    `[core]\n\trepositoryformatversion = ${isSha256 ? 1 : 0}\n\tbare = true\n`,
    isSha256 ? '[extensions]\n\tobjectformat = sha256\n' : '',
  ]
  await writeFile(join(directory, 'HEAD'), 'ref: refs/heads/none\n')
  await writeFile(join(directory, 'config'), config.join(''))
  const objects = join(repository.commonDir, 'objects')
  await writeFile(join(directory, 'objects', 'info', 'alternates'), `${objects}\n`)
  // In a shallow clone, commits beyond its boundary are not missing.
  await copyFile(join(repository.commonDir, 'shallow'), join(directory, 'shallow')).catch(() => undefined)
  return directory
}

type Reading = { readonly bundle: string; readonly quarantine: string; readonly branch: Branch }

/** Before version 2.46, `git fetch` does not check the objects of a bundle, so the pack is indexed and checked here. */
async function readBundle(git: IsolatedGit, { bundle, quarantine, branch }: Reading): Promise<void> {
  const header = await readBundleHeader(bundle)
  if (header?.refs.get(branch.ref) !== branch.commit) throw unreadable('the bundle has another ref')
  const pack = join(quarantine, 'pack')
  await writePack(bundle, header, pack)
  const call = (args: readonly string[], inputFile?: string) =>
    git([`--git-dir=${quarantine}`, ...args], { ...(inputFile !== undefined && { inputFile }) })
  for (const commit of header.prerequisites)
    if ((await call(['cat-file', '-e', `${commit}^{commit}`])).status !== 0) throw behind()
  const faults = FAULTS.map((fault) => `${fault}=error`).join(',')
  const indexed = await call(['index-pack', '--stdin', '--fix-thin', `--strict=${faults}`], pack)
  if (indexed.status !== 0) throw unreadable(indexed.stderr)
  const walked = await call([
    'rev-list',
    '--objects',
    '--quiet',
    branch.commit,
    '--not',
    ...header.prerequisites,
  ])
  if (walked.status !== 0) throw unreadable(walked.stderr)
}

const unreadable = (why: string): CliError =>
  new CliError(`The commits of the run cannot be taken: ${why.trim()}`, {
    status: EXIT.runFailed,
    hint: 'Nothing was changed. The changes can be read with "agentweaver diff".',
  })

const behind = (): CliError =>
  new CliError('The commits of the run build on commits that this repository does not have.', {
    status: EXIT.runFailed,
    hint: 'Name the clone that the run worked on with --repo DIR.',
  })

/** Moves packs in git's own order: the index comes last, because it makes the pack visible. */
async function takeObjects(from: string, to: string): Promise<void> {
  const names = (await readdir(from)).filter((name) => /^pack-[0-9a-f]{40,64}\.(?:pack|rev|idx)$/.test(name))
  await mkdir(to, { recursive: true })
  for (const ending of ['.pack', '.rev', '.idx'])
    for (const name of names.filter((one) => one.endsWith(ending)))
      await place(join(from, name), join(to, name))
}

async function place(from: string, to: string): Promise<void> {
  const temporary = `${to}.agentweaver`
  // The agent made the pack, so it knows this name. It may have placed a link here, and a copy would follow it.
  await rm(temporary, { force: true })
  await copyFile(from, temporary, constants.COPYFILE_FICLONE | constants.COPYFILE_EXCL)
  await rename(temporary, to)
}

/** Creates the ref with git, so that any ref storage format works. Hooks are disabled. */
async function writeRef(git: IsolatedGit, { gitDir }: Repository, { ref, commit }: Branch): Promise<boolean> {
  const at = [`--git-dir=${gitDir}`]
  const before = await git([...at, 'rev-parse', '--quiet', '--verify', ref])
  if (before.stdout.trim() === commit) return true
  if (before.status === 0)
    throw new CliError(`${ref} is there already and names another commit.`, {
      status: EXIT.refused,
      hint: `Remove it first: git update-ref -d ${ref}`,
    })
  const zero = '0'.repeat(commit.length)
  const log = ['--no-deref', '-m', 'agentweaver fetch']
  const written = await git([...at, 'update-ref', ...log, ref, commit, zero])
  if (written.status === 0) return false
  throw new CliError(`The ref ${ref} cannot be written: ${written.stderr.trim()}`, { status: EXIT.runFailed })
}
