import { closeSync, constants, existsSync, openSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join, relative } from 'node:path'
import type { HeldEntries } from '../../contracts/events.ts'
import { isWithin, SANDBOX_PATHS } from '../executors/rootfs/mounts.ts'
import { messageOf } from '../kit/errors.ts'
import { present } from '../kit/present.ts'
import { type ByteName, shownPath } from '../workspace/git/folder-names.ts'
import { GitWatch } from '../workspace/git/git-watch.ts'
import { type MadeBranch, makeBranch } from './branch.ts'
import { type Change, changesBetween, ignoredChangesBetween } from './compare.ts'
import type { GitSession, RunGit } from './git-sandbox.ts'
import { listFiles } from './list-files.ts'
import { removePlaceholders } from './placeholders.ts'
import { type MadeDiff, makeDiff, makeResultGit, RESULT_MOUNTS } from './results.ts'
import { type BaseState, type FolderGit, type FolderRecord, folderFiles, readBase } from './run-folder.ts'
import { ignoredSince, type Snapshot, takeSnapshot } from './snapshot.ts'

/** The results of a run on a folder. */
export interface Conclusion {
  /** Git directories that were renamed at the end. Set only for runs in the user's own folder. */
  readonly held?: HeldEntries
  /** Files that the run created or changed, ignored files included. */
  readonly written: readonly string[]
  readonly diff?: MadeDiff
  /** Changed files that git ignores. Their content is not stored. */
  readonly ignored?: readonly string[]
  readonly branch?: MadeBranch
  readonly hadUncommittedChanges: boolean
  /** Whether the results contain every change of the run. */
  readonly isComplete: boolean
  /** Why parts of the results are missing, in full sentences. */
  readonly problems: readonly string[]
}

const EMPTY = { written: [], hadUncommittedChanges: false, isComplete: false } as const
const FOLDER = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW

/**
 * Ends the use of a folder: renames git directories that the run left behind, removes the service's
 * placeholders, and creates the results. All processes of the run must have ended. Does not throw for anything
 * that the run did to the folder.
 */
export async function concludeFolder(
  record: FolderRecord,
  directory: string,
  runGit: RunGit | undefined,
): Promise<Conclusion> {
  const problems: string[] = []
  const attempt = async <T>(what: string, work: () => Promise<T>): Promise<T | undefined> => {
    try {
      return await work()
    } catch (error) {
      problems.push(`${what}: ${messageOf(error)}`)
      return undefined
    }
  }
  const held =
    record.mode === 'in-place'
      ? await attempt('Git directories could not be searched for', () => hold(record))
      : undefined
  const results = await resultsOf({ record, directory, attempt, problems }, runGit)
  await attempt('Placeholder files of the service could not be removed', () =>
    removePlaceholders(record.root, record.placeholders),
  )
  return { ...EMPTY, ...results, ...present({ held }), problems }
}

type Ending = Pick<Making, 'record' | 'directory' | 'attempt' | 'problems'>

async function resultsOf(ending: Ending, runGit: RunGit | undefined) {
  const { record, attempt, problems } = ending
  const { git, problem } = record
  if (git && runGit && problem === undefined)
    return attempt('The results could not be created', () => makeResults({ ...ending, git, runGit }))
  problems.push(`There are no results: ${problem ?? 'no isolation for git works on this machine'}.`)
  return undefined
}

async function hold({ root, gitEntries }: FolderRecord): Promise<HeldEntries> {
  return withFolder(root, (folder) => new GitWatch(folder, { base: gitEntries }).hold())
}

async function withFolder<T>(path: string, work: (folder: number) => Promise<T>): Promise<T> {
  const folder = openSync(path, FOLDER)
  try {
    return await work(folder)
  } finally {
    closeSync(folder)
  }
}

type Making = {
  readonly record: FolderRecord
  readonly directory: string
  readonly git: FolderGit
  readonly runGit: RunGit
  readonly attempt: <T>(what: string, work: () => Promise<T>) => Promise<T | undefined>
  readonly problems: string[]
}

async function makeResults(making: Making): Promise<Omit<Conclusion, 'held' | 'problems'>> {
  const { record, directory, git, runGit } = making
  const files = folderFiles(directory)
  await makeResultGit(files.result, git)
  await mkdir(files.after, { recursive: true, mode: 0o700 })
  const readOnly = (source: string, target: string) => ({ source, target, writable: false })
  const mounts = [
    // Shows git only what the run's commands saw, because git may execute what the run wrote into its own git
    // directory.
    ...record.layout.mounts
      .filter(({ target }) => isThere(record.root, target))
      .map((mount) => ({ ...mount, writable: false })),
    readOnly(files.base, RESULT_MOUNTS.base),
    readOnly(files.after, RESULT_MOUNTS.after),
    { source: files.result, target: RESULT_MOUNTS.result, writable: true },
    ...(git.isRepository ? [readOnly(files.privateGit(0), RESULT_MOUNTS.agent)] : []),
  ]
  const place = { workspace: record.root, mounts, scratch: files.scratch }
  return runGit(place, (session) => makeIn(session, making))
}

/**
 * The user may have deleted the path that a mount covers. The mount point cannot be created here, because the
 * folder is read-only.
 */
const isThere = (root: string, target: string): boolean =>
  !isWithin(target, SANDBOX_PATHS.workspace) ||
  existsSync(join(root, relative(SANDBOX_PATHS.workspace, target)))

async function makeIn(session: GitSession, making: Making): Promise<Omit<Conclusion, 'held' | 'problems'>> {
  const { record, directory, git, attempt, problems } = making
  const base = await readBase(directory)
  const after = await lookAgain(session, making, base)
  if (after.problem !== undefined) throw new Error(after.problem)
  const changes = changesBetween(base.snapshot, after)
  const ignored = record.mode === 'in-place' ? ignoredChangesBetween(base.snapshot, after) : []
  const { runId } = record
  const parts = {
    runId,
    objects: folderFiles(directory).after,
    changes,
    ...git,
    head: git.head,
    tree: base.tree,
  }
  const diff = await attempt('The diff could not be created', () => makeDiff(session, parts))
  const made = git.isRepository
    ? await attempt('The branch could not be created', () => makeBranch(session, parts))
    : undefined
  if (made?.kind === 'branch' && made.problem !== undefined) problems.push(made.problem)
  problems.push(...elsewhere(changes, git))
  const branch = made?.kind === 'branch' ? made.branch : undefined
  const isLeft = new Set(after.ignored.keys())
  const written = [
    ...changes.filter((change) => change.after).map(({ path }) => path),
    ...ignored.filter((path) => isLeft.has(path)),
  ]
  return {
    written: written.map(shownPath),
    hadUncommittedChanges: git.isDirty,
    isComplete: diff !== undefined && (made !== undefined || !git.isRepository),
    ...(record.mode === 'in-place' && { ignored: ignored.map(shownPath) }),
    ...present({ diff, branch }),
  }
}

/** Reports nested repositories with changes: their commits cannot be part of the folder's own branch. */
function elsewhere(changes: readonly Change[], { isRepository, nested }: FolderGit): string[] {
  const isBelow = (root: string) => {
    const start = `${Buffer.from(root).toString('latin1')}/`
    return changes.some(({ path }) => path.startsWith(start))
  }
  return nested
    .filter((root) => isRepository && isBelow(root))
    .map((root) => `What the run changed in ${root}, a nested repository, is in the diff but in no branch.`)
}

/** Takes the snapshot after the run. Files that were ignored before the run are still treated as ignored. */
async function lookAgain(
  session: GitSession,
  { record, directory, git }: Making,
  base: BaseState,
): Promise<Snapshot> {
  const listed = await listFiles(session, git.nested)
  if (!listed) throw new Error('git is no longer installed')
  const ignored = {
    files: union(git.ignored.files, listed.ignored.files),
    folders: union(git.ignored.folders, listed.ignored.folders),
  }
  const isKept = (path: ByteName, id: string) => {
    const before = base.snapshot.files.get(path)
    return before?.id === id && before.isKept
  }
  return withFolder(record.root, (folder) =>
    takeSnapshot(folder, {
      format: git.format,
      objects: folderFiles(directory).after,
      isIgnored: ignoredSince({ ignored }, base.snapshot),
      isStored: (path, id) => isKept(path, id) || base.tree.get(path)?.id === id,
      looksAtIgnored: record.mode === 'in-place',
    }),
  )
}

const union = (one: Iterable<string>, other: Iterable<string>): ReadonlySet<string> =>
  new Set([...one, ...other])
