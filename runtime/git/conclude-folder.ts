import { closeSync, constants, openSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { HeldEntries } from '../../contracts/events.ts'
import { messageOf } from '../kit/errors.ts'
import { present } from '../kit/present.ts'
import { type ByteName, shownPath } from '../workspace/git/folder-names.ts'
import { GitWatch } from '../workspace/git/git-watch.ts'
import { type MadeBranch, makeBranch } from './branch.ts'
import { type Change, changesBetween, ignoredChangesBetween } from './compare.ts'
import type { RunGit } from './git-sandbox.ts'
import { listFiles } from './list-files.ts'
import { removePlaceholders } from './placeholders.ts'
import { type MadeDiff, makeDiff, openResultGit, type ResultParts } from './results.ts'
import { type BaseState, type FolderGit, type FolderRecord, folderFiles, readBase } from './run-folder.ts'
import { ignoredSince, type Snapshot, takeSnapshot } from './snapshot.ts'

/** What became of a run's folder. */
export interface Conclusion {
  /** Git directories that were renamed at the end; only where the run worked in the user's own folder. */
  readonly held?: HeldEntries
  /** Files that the run made or changed, also those that git ignores. */
  readonly written: readonly string[]
  readonly diff?: MadeDiff
  /** Changed files that git ignores; their content is not kept. */
  readonly ignored?: readonly string[]
  readonly branch?: MadeBranch
  readonly hadUncommittedChanges: boolean
  /** Whether there is nothing of the run that the results do not have. */
  readonly isComplete: boolean
  /** Why a part of the results is missing, in sentences. */
  readonly problems: readonly string[]
}

const EMPTY = { written: [], hadUncommittedChanges: false, isComplete: false } as const
const FOLDER = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW

/**
 * Ends the use of a folder: renames git directories that the run left, takes away what the service put there, and makes
 * the results. No process of the run works in the folder any more. It does not throw for what the run did to it.
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
      ? await attempt('Git directories could not be looked for', () => hold(record))
      : undefined
  await attempt('Empty files of the service are left', () =>
    removePlaceholders(record.root, record.placeholders),
  )
  const { git, problem } = record
  if (git === undefined || runGit === undefined || problem !== undefined) {
    problems.push(`There are no results: ${problem ?? 'nothing isolates git on this machine'}.`)
    return { ...EMPTY, ...present({ held }), problems }
  }
  const results = await attempt('The results could not be made', () =>
    makeResults({ record, directory, git, runGit, attempt, problems }),
  )
  return { ...EMPTY, ...results, ...present({ held }), problems }
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
  const { record, directory, git, runGit, attempt, problems } = making
  const base = await readBase(directory)
  const resultGit = await openResultGit(partsOf(making, base, []))
  const after = await lookAgain(making, base, join(resultGit, 'objects'))
  if (after.problem !== undefined) throw new Error(after.problem)
  const changes = changesBetween(base.snapshot, after)
  const ignored = record.mode === 'in-place' ? ignoredChangesBetween(base.snapshot, after) : []
  const parts = partsOf(making, base, changes)
  const diff = await attempt('The difference could not be made', () => makeDiff(runGit, parts, resultGit))
  const made = git.isRepository
    ? await attempt('The branch could not be made', () => makeBranch(runGit, parts, resultGit))
    : undefined
  const branch = made?.kind === 'branch' ? made.branch : undefined
  if (made?.kind === 'branch' && made.problem !== undefined) problems.push(made.problem)
  const isThere = new Set(after.ignored.keys())
  const written = [
    ...changes.filter((change) => change.after).map(({ path }) => path),
    ...ignored.filter((path) => isThere.has(path)),
  ]
  return {
    written: written.map(shownPath),
    hadUncommittedChanges: git.isDirty,
    isComplete: diff !== undefined && (made !== undefined || !git.isRepository),
    ...(record.mode === 'in-place' && { ignored: ignored.map(shownPath) }),
    ...present({ diff, branch }),
  }
}

function partsOf(
  { record, directory, git }: Making,
  { tree }: BaseState,
  changes: readonly Change[],
): ResultParts {
  const files = folderFiles(directory)
  return {
    runId: record.runId,
    format: git.format,
    workspace: record.root,
    baseObjects: join(files.base, 'objects'),
    userObjects: git.userObjects,
    agentGit: git.isRepository ? files.privateGit(0) : undefined,
    changes,
    nested: git.nested,
    head: git.head,
    tree,
    tips: git.tips,
    scratch: files.scratch,
  }
}

/** The folder as it is now. What was ignored before the run is ignored still. */
async function lookAgain(
  { record, directory, git, runGit }: Making,
  base: BaseState,
  objects: string,
): Promise<Snapshot> {
  const files = folderFiles(directory)
  await mkdir(files.scratch, { recursive: true })
  const listed = await listFiles(runGit, {
    workspace: record.root,
    gitDir: files.base,
    mounts: record.layout.mounts.filter(({ target }) => target.startsWith('/run/git-objects/')),
    nested: git.nested,
    scratch: files.scratch,
  })
  if (!listed) throw new Error('git is not installed any more')
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
      objects,
      isIgnored: ignoredSince({ ignored }, base.snapshot),
      isStored: (path, id) => isKept(path, id) || base.tree.get(path)?.id === id,
      looksAtIgnored: record.mode === 'in-place',
    }),
  )
}

const union = (one: Iterable<string>, other: Iterable<string>): ReadonlySet<string> =>
  new Set([...one, ...other])
