import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { FolderMode } from '../../contracts/api.ts'
import type { GitEntry, WorkspaceLayout } from '../../contracts/workspace-layout.ts'
import type { ByteName } from '../workspace/git/folder-names.ts'
import type { ObjectFormat } from './clean-config.ts'
import type { ListedFiles, TreeItem } from './list-files.ts'
import { type Snapshot, snapshotFromJson, snapshotToJson } from './snapshot.ts'

/**
 * An empty file or folder that the service put into the user's folder, so that the run cannot create something
 * else there.
 */
export interface Placeholder {
  readonly path: string
  readonly identity: string
}

/** Everything that a service needs to end a run on a folder, also after the service was killed. */
export interface FolderRecord {
  readonly runId: string
  readonly path: string
  readonly mode: FolderMode
  /** The folder that the run works in: the user's own, or its copy. */
  readonly root: string
  readonly layout: WorkspaceLayout
  readonly placeholders: readonly Placeholder[]
  /** Git directories that existed before the run. Used only for runs in the user's own folder. */
  readonly gitEntries: readonly GitEntry[]
  /** Undefined if git is not installed or cannot be isolated. There are then no results. */
  readonly git?: FolderGit
  /** Why there will be no results, if that is known before the run. */
  readonly problem?: string
}

export interface FolderGit {
  readonly format: ObjectFormat
  /** Whether the folder is a repository, which can receive a branch. */
  readonly isRepository: boolean
  readonly nested: readonly string[]
  readonly head?: string
  readonly tips: readonly string[]
  /** Whether the folder had uncommitted changes. */
  readonly isDirty: boolean
  readonly ignored: { readonly files: readonly ByteName[]; readonly folders: readonly ByteName[] }
}

/** Paths of a run's files in the service's state folder. */
export const folderFiles = (directory: string) => ({
  record: join(directory, 'record.json'),
  snapshot: join(directory, 'snapshot.json'),
  tree: join(directory, 'tree.json'),
  copy: join(directory, 'files'),
  /** Private git directories by number. Number 0 belongs to the folder itself. */
  privateGit: (number: number) => join(directory, `git-${number}`),
  gitFile: (number: number) => join(directory, `gitfile-${number}`),
  /** A git directory that the run never sees. */
  base: join(directory, 'base'),
  /** Objects with the content after the run. Written by the service, read by git. */
  after: join(directory, 'after'),
  /** A git directory in which git creates the results. The service does not read it. */
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
