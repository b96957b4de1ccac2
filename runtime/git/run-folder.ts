import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { FolderMode } from '../../contracts/api.ts'
import type { GitEntry, WorkspaceLayout } from '../../contracts/workspace-layout.ts'
import type { ByteName } from '../workspace/git/folder-names.ts'
import type { ObjectFormat } from './clean-config.ts'
import type { ListedFiles, TreeItem } from './list-files.ts'
import { type Snapshot, snapshotFromJson, snapshotToJson } from './snapshot.ts'

/** Something empty that the service put into the user's folder so that a run cannot put something else there. */
export interface Placeholder {
  readonly path: string
  readonly identity: string
}

/** What a service has to know of a run's folder to end the run, also after it was killed. */
export interface FolderRecord {
  readonly runId: string
  /** The user's folder. */
  readonly path: string
  readonly mode: FolderMode
  /** The folder that the run works in: the user's own, or its copy. */
  readonly root: string
  readonly layout: WorkspaceLayout
  readonly placeholders: readonly Placeholder[]
  /** Git directories that were there; only where the run works in the user's own folder. */
  readonly gitEntries: readonly GitEntry[]
  /** Absent where nothing isolates git here, or git is not installed: then there are no results. */
  readonly git?: FolderGit
  /** Why there are no results, where that is known from the start. */
  readonly problem?: string
}

export interface FolderGit {
  readonly format: ObjectFormat
  /** Whether the folder is a repository, to which a branch can be brought back. */
  readonly isRepository: boolean
  readonly nested: readonly string[]
  readonly head?: string
  readonly tips: readonly string[]
  /** Whether the folder had changes that its HEAD did not have. */
  readonly isDirty: boolean
  readonly ignored: { readonly files: readonly ByteName[]; readonly folders: readonly ByteName[] }
}

/** The files of a run's folder in the state of the service. */
export const folderFiles = (directory: string) => ({
  record: join(directory, 'record.json'),
  snapshot: join(directory, 'snapshot.json'),
  tree: join(directory, 'tree.json'),
  /** The copy that an isolated run works in. */
  copy: join(directory, 'files'),
  /** Git directories that the run has, by number; the first one is that of the folder itself. */
  privateGit: (number: number) => join(directory, `git-${number}`),
  gitFile: (number: number) => join(directory, `gitfile-${number}`),
  /** A git directory that the run never sees. */
  base: join(directory, 'base'),
  /** Objects with the content after the run, which the service writes and git reads. */
  after: join(directory, 'after'),
  /** A git directory in which git makes the results; the service does not look at it. */
  result: join(directory, 'result'),
  scratch: join(directory, 'scratch'),
})

export interface BaseState {
  readonly snapshot: Snapshot
  readonly tree: ListedFiles['tree']
}

export async function writeBase(directory: string, { snapshot, tree }: BaseState): Promise<void> {
  const files = folderFiles(directory)
  await writeFile(files.snapshot, snapshotToJson(snapshot))
  await writeFile(files.tree, JSON.stringify([...tree]))
}

export async function readBase(directory: string): Promise<BaseState> {
  const files = folderFiles(directory)
  const tree: [ByteName, TreeItem][] = JSON.parse(await readFile(files.tree, 'utf8'))
  return { snapshot: snapshotFromJson(await readFile(files.snapshot, 'utf8')), tree: new Map(tree) }
}
